-- Read the state of one resource, all that admission needs, in one query; and reap what is overdue.

CREATE TYPE celery_semaphore.v1_resource AS (
    name text,
    declared bigint, -- in force as acquires declared it: see v1_declared
    operator bigint, -- the limit that operators put in force: 0 during a pause
    reap_at bigint,
    mean float8,
    too_heavy_above bigint, -- see v1_first_in_line
    kept celery_semaphore.kept_room[], -- see v1/kept_room.sql
    occupied bigint,
    token bigint, -- the largest one so far
    rows int, -- of its permits, free ones too
    free int, -- the number of the first free row
    mine int, -- the number of the row that the given holder has
    last_end bigint, -- the latest end of its permits and grants
    overdue bool,
    waits bool, -- whether it has any wait
    was_released bool -- whether the given holder has a tombstone
);

CREATE FUNCTION celery_semaphore.v1_read(
    _name text, _holder text, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_resource LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource;
    now bigint := _m.now;
BEGIN
    SELECT
        _name, celery_semaphore.v1_declared(_name, r, _m.permits_ended_by), (
            SELECT d.value FROM celery_semaphore.decision AS d
            WHERE d.name = ANY (celery_semaphore.v1_decision_names(_name)) AND d.until > now
            ORDER BY d.name DESC LIMIT 1
        ),
        r.reap_at, r.mean, r.too_heavy_above, r.kept, held.occupied, held.token, held.rows, held.free, held.mine,
        held.last_end, held.overdue,
        (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = _name LIMIT 1) IS NOT NULL,
        _holder IS NOT NULL AND (
            SELECT true FROM celery_semaphore.released AS d
            -- Not by the index on until
            WHERE d.holder = celery_semaphore.v1_digest(_name, _holder) AND d.until + 0 > now
        ) IS NOT NULL
    INTO at
    FROM (
        SELECT
            coalesce(sum(p.weight) FILTER (WHERE p.holder IS NOT NULL), 0)::bigint AS occupied,
            coalesce(max(p.last), 0) AS token,
            count(*)::int AS rows,
            min(p.row_no) FILTER (WHERE p.holder IS NULL) AS free,
            min(p.row_no) FILTER (WHERE p.holder = _holder) AS mine,
            max(p.ends) FILTER (WHERE p.holder IS NOT NULL) AS last_end,
            coalesce(bool_or(p.holder IS NOT NULL AND celery_semaphore.v1_is_over(p.ends, p.granted, _m)), false)
                AS overdue
        FROM celery_semaphore.permit AS p WHERE p.resource = _name
    ) AS held
    LEFT JOIN celery_semaphore.resource AS r ON r.name = _name;
    IF at.waits AND NOT at.overdue THEN
        at.overdue := celery_semaphore.v1_next_wait_end(_name) <= now;
    END IF;
    RETURN at;
END $$;

-- Note that the resource must be reaped, at `_reap_at` at the latest.
CREATE FUNCTION celery_semaphore.v1_mark_in_use(_name text, _reap_at bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO celery_semaphore.resource AS r (name, reap_at) VALUES (_name, _reap_at)
    ON CONFLICT (name) DO UPDATE SET reap_at = excluded.reap_at WHERE r.reap_at > excluded.reap_at;
END $$;

-- End what is overdue on a resource. A holder with an expired lease is dead, and gets a tombstone. The wait of a grant
-- returns to its place if its message was not sent, or is in transit if its session did not take the grant up (E7). A
-- wait in transit is deleted when its time is over (E13). If the wait of a parked message is over (E10), the message is
-- sent until the broker has it.
CREATE FUNCTION celery_semaphore.v1_end_overdue(_name text, _m celery_semaphore.v1_moment) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    gone record;
    over bigint[];
BEGIN
    FOR gone IN
        WITH dead AS MATERIALIZED (
            SELECT p.row_no, p.holder FROM celery_semaphore.permit AS p
            WHERE p.resource = _name AND p.holder IS NOT NULL
            AND celery_semaphore.v1_is_over(p.ends, p.granted, _m)
        )
        UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = _m.now
        FROM dead WHERE p.resource = _name AND p.row_no = dead.row_no
        RETURNING dead.holder, p.granted, p.since,
            celery_semaphore.v1_wait_id(celery_semaphore.v1_nonce_of_grant(dead.holder)) AS id
    LOOP
        IF NOT gone.granted THEN
            PERFORM celery_semaphore.v1_mark_released(_name, gone.holder, _m.now + _m.lease);
            CONTINUE;
        END IF;
        UPDATE celery_semaphore.waiter AS w SET state = 'in_line', outbox = false
        WHERE w.id = gone.id AND w.resource = _name AND w.payload IS NOT NULL;
        IF NOT FOUND AND NOT celery_semaphore.v1_end_untaken_grant(gone.id, _name, gone.since, _m) THEN
            -- Its message was sent.
            DELETE FROM celery_semaphore.waiter AS w WHERE w.id = gone.id AND w.resource = _name;
        END IF;
    END LOOP;
    over := ARRAY( -- others wait for this call
        SELECT w.id FROM celery_semaphore.waiter AS w
        WHERE w.resource = _name AND w.ends <= _m.now AND w.state <> 'granted' ORDER BY w.ends LIMIT 1000);
    DELETE FROM celery_semaphore.waiter AS w WHERE w.id = ANY (over) AND w.payload IS NULL;
    UPDATE celery_semaphore.waiter AS w SET state = 'ended', outbox = true, ends = _m.now + _m.take_up
    WHERE w.id = ANY (over);
    IF FOUND THEN
        PERFORM celery_semaphore.v1_mark_in_use(_name, _m.now);
    END IF;
END $$;

CREATE FUNCTION celery_semaphore.v1_next_wait_end(_name text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT w.ends FROM celery_semaphore.waiter AS w
        WHERE w.resource = _name AND w.state <> 'granted' ORDER BY w.ends LIMIT 1);
END $$;

-- Cut leases that end later than any can: the server's clock stepped back.
CREATE FUNCTION celery_semaphore.v1_cut_leases(_name text, _furthest bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.permit AS p SET ends = _furthest
    WHERE p.resource = _name AND p.holder IS NOT NULL AND p.ends > _furthest;
END $$;

-- End what is overdue, then look. Nothing ends during the grace: the server was away, so no holder could renew and no
-- session could ask.
CREATE FUNCTION celery_semaphore.v1_reap_and_read(
    _name text, _holder text, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_resource LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource;
BEGIN
    at := celery_semaphore.v1_read(_name, _holder, _m);
    IF at.last_end > celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up) THEN
        PERFORM celery_semaphore.v1_cut_leases(at.name, celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up));
    END IF;
    IF at.kept IS NOT NULL THEN
        at.kept := celery_semaphore.v1_delete_room_over(at, _m);
    END IF;
    IF at.overdue AND NOT _m.in_grace THEN
        PERFORM celery_semaphore.v1_end_overdue(_name, _m);
        at := celery_semaphore.v1_read(_name, _holder, _m);
    END IF;
    RETURN at;
END $$;
