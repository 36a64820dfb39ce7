-- Find the waits of a task, by its id: W1 to W5 of docs/maintain/architecture.md. It takes no lock, and one statement
-- sees each other call as a whole or not at all.
CREATE FUNCTION celery_semaphore.v1_waits_of(
    _call celery_semaphore.v1_call, _task text, _most int
) RETURNS TABLE (
    epoch bigint, resource text, claims text, ticket text, kind text, weight bigint, before bigint, due bigint,
    session text, reachable bool, in_force bigint, state text, granted_until bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
BEGIN
    m := celery_semaphore.v1_enter('{}', _call);
    RETURN QUERY
    SELECT m.epoch, w.resource, w.claims, celery_semaphore.v1_format_ticket(celery_semaphore.v1_ticket_of(w)),
        w.kind, w.weight, ahead.waits, w.due, w.session,
        stands.state <> 'in transit' AND (w.session <> '' OR w.payload IS NOT NULL)
            AND NOT celery_semaphore.v1_is_out_of_reach(w.session, w.epoch, m),
        coalesce(set_one.value, celery_semaphore.v1_declared(w.resource, r, m.permits_ended_by)),
        stands.state, CASE WHEN stands.state = 'granted' THEN own.ends END
    FROM celery_semaphore.waiter AS w
    LEFT JOIN celery_semaphore.resource AS r ON r.name = w.resource
    LEFT JOIN LATERAL (
        SELECT p.ends FROM celery_semaphore.permit AS p
        WHERE p.resource = w.resource AND p.holder = celery_semaphore.v1_grant_name(w.nonce)
        AND (NOT celery_semaphore.v1_is_over(p.ends, true, m) OR m.in_grace)
    ) AS own ON w.state = 'granted'
    CROSS JOIN LATERAL (SELECT CASE
        WHEN own.ends IS NOT NULL THEN 'granted' -- W1
        WHEN w.state = 'granted' AND w.payload IS NOT NULL THEN 'in line' -- W3
        WHEN w.state = 'granted' AND w.session <> '' THEN 'in transit' -- W2
        WHEN w.state <> 'granted' THEN replace(w.state, '_', ' ') -- W2, W3, W4
    END) AS stands (state) -- W5: null
    CROSS JOIN LATERAL (
        SELECT count(*) FROM celery_semaphore.waiter AS other
        WHERE other.resource = w.resource AND other.state IN ('in_line', 'in_transit', 'set_aside')
        AND (other.urgency, other.place, other.nonce) < (w.urgency, w.place, w.nonce)
    ) AS ahead (waits)
    CROSS JOIN LATERAL celery_semaphore.v1_limit_set(w.resource) AS set_one (value)
    WHERE w.id BETWEEN celery_semaphore.v1_first_id(_task) AND celery_semaphore.v1_last_id(_task)
    AND celery_semaphore.v1_task_of(w.nonce) = _task AND stands.state IS NOT NULL
    LIMIT _most;
END $$;
