-- Move waits before all others in this line, as if they had the highest priority: E11. `promoted` are the nonces of
-- those that were moved.
CREATE FUNCTION celery_semaphore.v1_promote(
    _call celery_semaphore.v1_call, _resource text, _nonces text[],
    OUT epoch bigint, OUT again bool, OUT needed text[], OUT outgoing text[], OUT granted text[], OUT promoted text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
BEGIN
    m := celery_semaphore.v1_enter(ARRAY[_resource], _call, true);
    PERFORM celery_semaphore.v1_reap_and_read(_resource, NULL, m);
    WITH moved AS (
        UPDATE celery_semaphore.waiter AS w SET urgency = 0
        WHERE w.id = ANY (ARRAY(SELECT celery_semaphore.v1_wait_id(each.nonce) FROM unnest(_nonces) AS each (nonce)))
        AND w.resource = _resource AND w.state IN ('in_line', 'set_aside') RETURNING w.nonce
    )
    SELECT coalesce(array_agg(moved.nonce), '{}') INTO promoted FROM moved;
    SELECT * INTO epoch, again, needed, outgoing, granted
    FROM celery_semaphore.v1_mark_outgoing(celery_semaphore.v1_hand_on(ARRAY[_resource], m), m);
END $$;
