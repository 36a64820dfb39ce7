-- Move waits before all others in this line, as if they had the highest priority: E11.
CREATE FUNCTION celery_semaphore.v1_promote(
    _call celery_semaphore.v1_call, _resource text, _nonces text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
BEGIN
    m := celery_semaphore.v1_enter(ARRAY[_resource], _call, true);
    PERFORM celery_semaphore.v1_reap_and_read(_resource, NULL, m);
    UPDATE celery_semaphore.waiter AS w SET urgency = 0
    WHERE w.id = ANY (ARRAY(SELECT celery_semaphore.v1_wait_id(each.nonce) FROM unnest(_nonces) AS each (nonce)))
    AND w.resource = _resource AND w.state IN ('in_line', 'in_transit', 'set_aside');
    RETURN celery_semaphore.v1_mark_outgoing(celery_semaphore.v1_hand_on(ARRAY[_resource], m), m);
END $$;
