-- E12: end the waits of parked messages; a granted one goes on, for its message is on its way. `again`: some moved to
-- another resource meanwhile.
CREATE FUNCTION celery_semaphore.v1_end(
    _call celery_semaphore.v1_call, _messages text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    handed celery_semaphore.v1_handed;
    names text[] := ARRAY(
        SELECT DISTINCT w.resource FROM celery_semaphore.waiter AS w
        WHERE w.name = ANY (_messages) AND w.name <> ''
        -- Granted ones, too: v1_reap_and_read puts an overdue one in line.
        AND w.state IN ('in_line', 'set_aside', 'granted'));
    one text;
BEGIN
    m := celery_semaphore.v1_enter(names, _call, true);
    FOREACH one IN ARRAY names LOOP
        PERFORM celery_semaphore.v1_reap_and_read(one, NULL, m);
    END LOOP;
    UPDATE celery_semaphore.waiter AS w SET state = 'ended', outbox = true, ends = m.now + m.take_up
    WHERE w.name = ANY (_messages) AND w.name <> '' AND w.state IN ('in_line', 'set_aside')
    AND array_position(names, w.resource) IS NOT NULL AND w.payload IS NOT NULL;
    handed := celery_semaphore.v1_mark_outgoing(celery_semaphore.v1_hand_on(names, m), m);
    PERFORM 1 FROM celery_semaphore.waiter AS w
    WHERE w.name = ANY (_messages) AND w.name <> '' AND w.state IN ('in_line', 'set_aside') LIMIT 1;
    handed.again := FOUND;
    RETURN handed;
END $$;
