-- The tables, as this version of the library makes them; later ones only add columns. `celery_semaphore.` stands for
-- the schema and the prefix that were set. Times are microseconds of the server's clock, as on the other stores.
-- Names are plain ASCII: see names.py.

CREATE TABLE celery_semaphore.installed (
    version int PRIMARY KEY, -- of the functions: v<version>_acquire and so on
    at timestamptz NOT NULL DEFAULT now()
);

-- A resource in use, or used not long ago. Nothing in it changes with every permit but the mean: what is indexed
-- stays, so that each update finds room on its own page (HOT), and leaves nothing for a vacuum of the index.
CREATE TABLE celery_semaphore.resource (
    name text COLLATE "C" PRIMARY KEY,
    declared bigint, -- the limit that the newest acquire declared
    reap_at bigint NOT NULL, -- not later than anything can end here: when somebody must reap
    mean float8, -- how long its permits were held lately
    mean_samples bigint NOT NULL DEFAULT 0, -- how many made the mean
    latest float8, -- how long the permit was held that was released last while there was a wait
    too_heavy_above bigint, -- the limit for which some of its line were put aside
    ceiling bigint, -- the most that could live in an epoch: see v1_ceiling
    ceiling_in bigint -- that epoch
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX ON celery_semaphore.resource (reap_at);

-- Permits and grants. A row is used again by the next holder: there are never more of them than were held at once.
CREATE TABLE celery_semaphore.permit (
    resource text COLLATE "C",
    row_no int, -- from 0 on, without gaps
    holder text COLLATE "C", -- of a grant: v1_grant_of(the nonce of its ticket); null: the row is free
    granted bool NOT NULL,
    urgency smallint, -- of a grant: its ticket's
    place bigint, -- of a grant: its ticket's
    weight bigint NOT NULL,
    token bigint NOT NULL,
    last bigint NOT NULL, -- the largest token that this row saw
    since bigint NOT NULL,
    ends bigint NOT NULL, -- of the lease; of what nobody holds: when it was given back
    epoch bigint NOT NULL, -- in which it was written or renewed last: an earlier one only remembers it
    restored bool NOT NULL, -- put back in that epoch, which had forgotten it
    PRIMARY KEY (resource, row_no)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Holders that never run again, by their digest, for one lease. A crash may forget them: nobody new is admitted then
-- for a while, and whoever asked before it has lost its connection.
CREATE UNLOGGED TABLE celery_semaphore.released (
    holder bigint PRIMARY KEY,
    until bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX ON celery_semaphore.released (until);

-- Waits: see v1/ticket.sql.
--
-- A plan is made once for each connection, perhaps while nobody waits, and then all indexes look alike to the planner.
-- So no two of them begin alike, but where an order tells which one is meant (see v1/line.sql).
CREATE TABLE celery_semaphore.waiter (
    id bigint PRIMARY KEY, -- v1_digest(resource, nonce)
    resource text COLLATE "C" NOT NULL,
    urgency smallint NOT NULL, -- 255 - priority
    place bigint NOT NULL, -- when the wait began
    nonce text COLLATE "C" NOT NULL, -- the holder whose acquire was refused then
    -- in_line: a permit can be granted to it, if its session is awake; in_transit: none can until its message asks again;
    -- set_aside: as in_line, but the limit in force is too low for it; granted: it has one; ended: its wait is over
    state text COLLATE "C" NOT NULL,
    outbox bool NOT NULL, -- its message must be sent
    kind text NOT NULL,
    weight bigint NOT NULL, -- here
    own_limit bigint NOT NULL, -- the limit that it declared here
    resources text[] NOT NULL, -- all that it asks, with the weights and the limits
    weights bigint[] NOT NULL,
    limits bigint[] NOT NULL,
    claims text NOT NULL, -- as the caller wrote them
    due bigint NOT NULL, -- asks again by then; in transit: since when
    ends bigint, -- then it is dropped or, with a message, its wait ends
    name text COLLATE "C" NOT NULL, -- of its message
    payload bytea, -- its message
    session text COLLATE "C" NOT NULL DEFAULT '', -- that asks for its grants; empty: none does
    keeps bigint NOT NULL DEFAULT 0 -- for so long its place is kept in transit, if that is longer than a lease
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX ON celery_semaphore.waiter (resource, state, urgency, place, nonce);
CREATE INDEX ON celery_semaphore.waiter (resource, ends);
CREATE INDEX ON celery_semaphore.waiter (resource, urgency, place, nonce) WHERE outbox;
CREATE INDEX ON celery_semaphore.waiter (name) WHERE name <> '';
CREATE INDEX ON celery_semaphore.waiter (session, nonce) WHERE session <> '' AND state = 'granted';

-- Sessions: one is awake while it asked within a lease. Putting one to sleep deletes its row. A crash may forget them:
-- then each asks anew, and names what it holds.
CREATE UNLOGGED TABLE celery_semaphore.session (
    name text COLLATE "C" PRIMARY KEY,
    asked bigint NOT NULL,
    before bigint -- when it had asked before that; null: it slept
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Of a task that waits or waited: which of its messages was admitted, for whom, and whether it ran.
CREATE TABLE celery_semaphore.message (
    resource text COLLATE "C",
    task text COLLATE "C",
    ticket text COLLATE "C" NOT NULL,
    admitted text COLLATE "C",
    holder text COLLATE "C" NOT NULL,
    ran bool NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (resource, task)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX ON celery_semaphore.message (until);

-- Limits that an operator set, for a resource or for a semaphore.
CREATE TABLE celery_semaphore.set_limit (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- The store's memory. A crash of the server, even of one of its processes only, empties an unlogged table, and so
-- does a failover: then what was written last may be missing. The durable one tells that there was a memory before.
CREATE UNLOGGED TABLE celery_semaphore.epoch (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    id bigint NOT NULL,
    started timestamptz NOT NULL, -- of the server
    created bigint NOT NULL,
    grace_until bigint NOT NULL,
    format int NOT NULL -- see epoch_before
) WITH (fillfactor = 50);
CREATE TABLE celery_semaphore.epoch_before (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    id bigint NOT NULL,
    format int NOT NULL -- of the rows in all tables: functions of an older one leave them alone
) WITH (fillfactor = 50);
