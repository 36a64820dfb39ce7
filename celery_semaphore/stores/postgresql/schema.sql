-- Create the tables of version 1; later versions only add columns. `celery_semaphore.` stands for the schema and the
-- prefix that are set. Times are microseconds of the server's clock, as on the other stores. Names are plain ASCII: see
-- names.py.

CREATE TABLE celery_semaphore.installed (
    version int PRIMARY KEY, -- of the functions: v<version>_acquire and so on
    at timestamptz NOT NULL DEFAULT now()
);

-- The room that a wait keeps at one of its resources while another one refuses it: see v1/kept_room.sql.
CREATE TYPE celery_semaphore.kept_room AS (
    nonce text COLLATE "C", urgency smallint, place bigint, -- the ticket, with the urgency that it had then
    weight bigint,
    ends bigint
);

-- Resources that are in use, or were lately. A permit changes only the mean and its samples. No indexed column changes,
-- so each update stays on its own page (HOT) and leaves no dead index entries.
CREATE TABLE celery_semaphore.resource (
    name text COLLATE "C" PRIMARY KEY,
    declared bigint, -- the smallest limit of the newest window with a declaration: see v1_declared
    declared_before bigint, -- the smallest of the window before; null: there was none
    declared_until bigint, -- the end of the newest window
    declared_by text COLLATE "C", -- the process that declared the smallest of the newest window first
    declared_before_by text COLLATE "C", -- the one that did so in the window before
    reap_at bigint NOT NULL, -- when the resource must be reaped: not later than anything can end here
    mean float8, -- how long its permits were held lately
    mean_samples bigint NOT NULL DEFAULT 0, -- how many permits the mean has counted
    latest float8, -- how long the last permit was held that was released while a task waited
    too_heavy_above bigint, -- the limit for which heavier waits were set aside; null: none are
    kept celery_semaphore.kept_room[] -- null: none; what is over may stay until the next call that reaps
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX ON celery_semaphore.resource (reap_at);

-- Permits and grants. The next holder reuses a free row, so there are never more rows than were held at once.
CREATE TABLE celery_semaphore.permit (
    resource text COLLATE "C",
    row_no int, -- from 0 on, without gaps
    holder text COLLATE "C", -- or v1_grant_name(the ticket's nonce) for a grant; null: the row is free
    granted bool NOT NULL,
    urgency smallint, -- of a grant: its ticket's
    place bigint, -- of a grant: its ticket's
    weight bigint NOT NULL,
    token bigint NOT NULL,
    last bigint NOT NULL, -- the largest token that this row ever had
    since bigint NOT NULL,
    ends bigint NOT NULL, -- when the lease or the grant ends; of a free row: when it was released
    epoch bigint NOT NULL, -- in which the row was last written or renewed
    restored bool NOT NULL, -- lately, by its holder, after the store had lost it: see A21
    again text COLLATE "C", -- the last holder in this row that ran when its message was delivered again: see R5
    PRIMARY KEY (resource, row_no)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Tombstones: digests of holders that never run again, kept for one lease. A crash may empty this table: then no new
-- holder is admitted during the grace, and every process that called before the crash has lost its connection.
CREATE UNLOGGED TABLE celery_semaphore.released (
    holder bigint PRIMARY KEY,
    until bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX ON celery_semaphore.released (until);

-- Waits: see v1/ticket.sql.
--
-- A connection plans each query once, perhaps while the table is empty, when all indexes look alike to the planner.
-- So no two indexes begin alike, except where an ORDER BY selects one of them (see v1/line.sql).
CREATE TABLE celery_semaphore.waiter (
    id bigint PRIMARY KEY, -- v1_wait_id(nonce): one row for each wait, whatever its claims are
    resource text COLLATE "C" NOT NULL,
    urgency smallint NOT NULL, -- 255 - priority
    place bigint NOT NULL, -- when the wait began
    nonce text COLLATE "C" NOT NULL, -- the holder that was refused first
    -- in_line: it can be granted a permit if it is reachable; in_transit: not before its next acquire;
    -- set_aside: as in_line, but heavier than the limit in force; granted: it has a grant; ended: the wait is over
    state text COLLATE "C" NOT NULL,
    outbox bool NOT NULL, -- its message must be sent
    kind text NOT NULL,
    weight bigint NOT NULL, -- on this resource
    own_limit bigint, -- the limit that it declared for this resource; null: none
    resources text[] NOT NULL, -- of all its claims, and their weights and limits
    weights bigint[] NOT NULL,
    limits bigint[] NOT NULL,
    claims text NOT NULL, -- as the caller wrote them
    due bigint NOT NULL, -- when its next acquire is expected, or since when it is in transit
    ends bigint, -- when it is deleted or, if it has a message, its wait ends
    name text COLLATE "C" NOT NULL, -- of its message
    payload bytea, -- its message
    broker text COLLATE "C" NOT NULL DEFAULT '', -- that its message belongs to; empty: any
    session text COLLATE "C" NOT NULL DEFAULT '', -- that asks for its grants; empty: none
    epoch bigint NOT NULL DEFAULT 0, -- in which that session last said that it owns the wait
    keeps bigint NOT NULL DEFAULT 0 -- how long its place is kept in transit, if longer than a lease
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX ON celery_semaphore.waiter (resource, state, urgency, place, nonce);
CREATE INDEX ON celery_semaphore.waiter (resource, ends);
CREATE INDEX ON celery_semaphore.waiter (resource, urgency, place, nonce) WHERE outbox;
CREATE INDEX ON celery_semaphore.waiter (name) WHERE name <> '';
CREATE INDEX ON celery_semaphore.waiter (session, nonce) WHERE session <> '' AND state = 'granted';

-- Sessions. A session is awake if it asked within a lease; putting it to sleep deletes its row. A crash may empty this
-- table: then each session asks again and names the waits that it owns.
CREATE UNLOGGED TABLE celery_semaphore.session (
    name text COLLATE "C" PRIMARY KEY,
    asked bigint NOT NULL,
    before bigint, -- when it asked the time before; null: it slept
    room bigint -- how many grants its process can use; null: without a bound
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Processes, see processes.py. A crash may empty this table: each process is back when it reaps next.
CREATE UNLOGGED TABLE celery_semaphore.process (
    name text COLLATE "C" PRIMARY KEY,
    seen bigint NOT NULL -- when it reaped last
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Consumers of queues, see v1/consumed_queues.sql. A crash may empty this table: workers soon say it again.
CREATE UNLOGGED TABLE celery_semaphore.consumer (
    queue text COLLATE "C",
    worker text COLLATE "C",
    said bigint NOT NULL, -- when the worker said last that it consumes the queue
    PRIMARY KEY (queue, worker)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX ON celery_semaphore.consumer (said);

-- Brokers of the store's workers, see v1/consumed_queues.sql. A crash may empty it: workers soon say it again.
CREATE UNLOGGED TABLE celery_semaphore.broker (
    name text COLLATE "C" PRIMARY KEY,
    named bigint NOT NULL -- when a worker named it last
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The messages of tasks that wait or waited: which one was admitted, for which holder, and whether it ran.
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

-- What operators decided for a resource or a semaphore.
CREATE TABLE celery_semaphore.decision (
    name text COLLATE "C" PRIMARY KEY, -- of a limit; or v1_pause_name(that name) for a pause
    value bigint NOT NULL, -- the limit; of a pause 0
    since bigint NOT NULL,
    until bigint NOT NULL -- also of a limit, and of a pause that lasts until it is resumed: see decisions.py
);

-- The epoch. A crash of the server, even of a single backend, empties an unlogged table, and so does a failover: then
-- the last writes may be missing. The durable table `epoch_before` tells that there was an earlier epoch.
CREATE UNLOGGED TABLE celery_semaphore.epoch (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    id bigint NOT NULL,
    started timestamptz NOT NULL, -- when the server started
    created bigint NOT NULL,
    grace_until bigint NOT NULL,
    format int NOT NULL, -- this and the following: see epoch_before
    lease bigint NOT NULL,
    take_up bigint NOT NULL,
    slow bigint NOT NULL,
    slow_until bigint NOT NULL,
    called bigint NOT NULL, -- when a call came last, as far as it was noted: see v1_note_call
    silent_since bigint NOT NULL, -- when the last silence began
    awaited_until bigint NOT NULL -- no permit ends until then that was alive at that time
) WITH (fillfactor = 50);
CREATE TABLE celery_semaphore.epoch_before (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    id bigint NOT NULL,
    format int NOT NULL, -- of the rows in all tables: functions of an older format do not write them
    lease bigint NOT NULL, -- in force for all callers: of the first one, or as an operator set it
    take_up bigint NOT NULL, -- so is this: how long the grant of a sent message lasts
    slow bigint NOT NULL DEFAULT 0, -- the longest lease that some may still renew by, until `slow_until`
    slow_until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
