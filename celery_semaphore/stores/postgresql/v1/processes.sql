-- Know which processes use the store, and which format each of them writes: processes.py.

-- Note that this process runs. Rows of processes that ended are deleted; one that another call has locked is skipped.
CREATE FUNCTION celery_semaphore.v1_note_process(_name text, _now bigint, _lease bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    kept bigint := greatest(celery_semaphore.v1_seen_for(), _lease);
BEGIN
    INSERT INTO celery_semaphore.process AS p (name, seen) VALUES (_name, _now)
    ON CONFLICT (name) DO UPDATE SET seen = excluded.seen;
    DELETE FROM celery_semaphore.process AS p WHERE p.ctid = ANY (ARRAY(
        SELECT old.ctid FROM celery_semaphore.process AS old
        WHERE old.seen <= _now - kept OR old.seen > _now + kept -- the clock stepped back
        FOR UPDATE SKIP LOCKED));
END $$;

-- Return for how long a process counts after it reaped, in microseconds: SEEN_FOR_S.
CREATE FUNCTION celery_semaphore.v1_seen_for() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 60000000::bigint $$;

CREATE FUNCTION celery_semaphore.v1_processes(_call celery_semaphore.v1_call) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM celery_semaphore.v1_check_call(_call);
    RETURN QUERY SELECT p.name FROM celery_semaphore.process AS p
    WHERE p.seen > celery_semaphore.v1_now(_call.clock) - greatest(celery_semaphore.v1_seen_for(), _call.lease);
END $$;
