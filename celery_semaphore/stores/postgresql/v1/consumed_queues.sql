-- Know which brokers are used, and which of their queues are consumed.

-- Return for how long a worker counts as a consumer after it said so, in microseconds: CONSUMED_FOR_S of core/store.py.
CREATE FUNCTION celery_semaphore.v1_consumed_for(_lease bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(30000000::bigint, _lease)
$$;

-- K1: note which queues a worker consumes now, and which ones it left. It writes rows of this worker alone, and of the
-- overdue ones (K2) those that no other call has locked: so no two calls wait for each other.
CREATE FUNCTION celery_semaphore.v1_consume(
    _call celery_semaphore.v1_call, _worker text, _queues text[], _left text[]
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint;
    kept bigint := celery_semaphore.v1_consumed_for(_call.lease);
    asked text;
BEGIN
    PERFORM celery_semaphore.v1_need_read_committed();
    PERFORM celery_semaphore.v1_check_call(_call);
    asked := set_config('synchronous_commit', 'off', true);
    now := celery_semaphore.v1_now(_call.clock);
    INSERT INTO celery_semaphore.consumer AS c (queue, worker, said)
    SELECT DISTINCT each.queue, _worker, now FROM unnest(_queues) AS each (queue)
    ON CONFLICT (queue, worker) DO UPDATE SET said = excluded.said;
    DELETE FROM celery_semaphore.consumer AS c WHERE c.queue = ANY (_left) AND c.worker = _worker;
    DELETE FROM celery_semaphore.consumer AS c WHERE c.ctid = ANY (
        ARRAY(
            SELECT old.ctid FROM celery_semaphore.consumer AS old
            WHERE old.said <= now - kept LIMIT 1000 FOR UPDATE SKIP LOCKED
        ) || ARRAY(
            SELECT ahead.ctid FROM celery_semaphore.consumer AS ahead
            WHERE ahead.said >= now + kept LIMIT 1000 FOR UPDATE SKIP LOCKED)); -- the clock stepped back
END $$;

-- K3: return the queues that no worker consumes.
CREATE FUNCTION celery_semaphore.v1_unconsumed(
    _call celery_semaphore.v1_call, _queues text[]
) RETURNS text[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := celery_semaphore.v1_now(_call.clock);
    kept bigint := celery_semaphore.v1_consumed_for(_call.lease);
BEGIN
    PERFORM celery_semaphore.v1_check_call(_call);
    RETURN ARRAY(
        SELECT each.queue FROM unnest(_queues) AS each (queue) WHERE NOT EXISTS (
            SELECT FROM celery_semaphore.consumer AS c
            WHERE c.queue = each.queue AND c.said > now - kept AND c.said < now + kept));
END $$;

-- Return for how long a broker counts after a worker named it, in microseconds: BROKER_FOR_S of core/store.py.
CREATE FUNCTION celery_semaphore.v1_broker_for() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT 3600000000::bigint
$$;

-- K5: note the caller's broker, unless it is empty, and return those that were named lately.
CREATE FUNCTION celery_semaphore.v1_brokers(
    _call celery_semaphore.v1_call, _own text
) RETURNS SETOF text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint;
    kept bigint := celery_semaphore.v1_broker_for();
    asked text;
BEGIN
    PERFORM celery_semaphore.v1_need_read_committed();
    PERFORM celery_semaphore.v1_check_call(_call);
    now := celery_semaphore.v1_now(_call.clock);
    IF _own <> '' THEN
        asked := set_config('synchronous_commit', 'off', true);
        INSERT INTO celery_semaphore.broker AS b (name, named) VALUES (_own, now)
        ON CONFLICT (name) DO UPDATE SET named = excluded.named;
        DELETE FROM celery_semaphore.broker AS b WHERE b.ctid = ANY (ARRAY(
            SELECT old.ctid FROM celery_semaphore.broker AS old
            WHERE old.named <= now - kept OR old.named >= now + kept -- the clock stepped back
            FOR UPDATE SKIP LOCKED));
    END IF;
    RETURN QUERY SELECT b.name FROM celery_semaphore.broker AS b WHERE b.named > now - kept AND b.named < now + kept;
END $$;
