-- Write and delete tombstones of holders that never run again.

-- R4: write a tombstone.
CREATE FUNCTION celery_semaphore.v1_mark_released(_name text, _holder text, _until bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO celery_semaphore.released AS d (holder, until)
    VALUES (celery_semaphore.v1_digest(_name, _holder), _until)
    ON CONFLICT (holder) DO UPDATE SET until = greatest(d.until, excluded.until);
END $$;

-- Delete expired tombstones, some at a time; each call deletes far more than were added since the last.
CREATE FUNCTION celery_semaphore.v1_delete_tombstones(_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM celery_semaphore.released AS d WHERE d.ctid = ANY (ARRAY(
        SELECT old.ctid FROM celery_semaphore.released AS old
        WHERE old.until <= _now ORDER BY old.until LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
END $$;
