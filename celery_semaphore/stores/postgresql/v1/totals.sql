-- Count what is at many resources.

-- Return one row for each resource, in the given order: T1 to T7 of docs/maintain/architecture.md. It takes no lock and
-- writes nothing, so it begins no epoch. As a stable function it sees all resources at one instant.
CREATE FUNCTION celery_semaphore.v1_totals(
    _call celery_semaphore.v1_call, _names text[]
) RETURNS TABLE (
    in_force bigint, by_operator bool, paused bool, kept bigint, mean bigint, held bigint, granted bigint,
    parked bigint, reachable bigint, in_transit bigint, set_aside bigint,
    oldest_wait bigint, -- microseconds since it began; null: none waits
    outbox bigint, outbox_oldest bigint -- microseconds since the oldest grant of these messages
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    now bigint := celery_semaphore.v1_now(_call.clock);
    in_grace bool := coalesce((SELECT now < e.grace_until FROM celery_semaphore.epoch AS e WHERE e.one), false);
    permits_ended_by bigint := coalesce(
        (SELECT e.silent_since FROM celery_semaphore.epoch AS e WHERE e.one AND now < e.awaited_until), now); -- A17
BEGIN
    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;
    RETURN QUERY
    SELECT
        coalesce(set_one.value, celery_semaphore.v1_declared(asked.name, at.known, permits_ended_by)),
        set_one.value IS NOT NULL, celery_semaphore.v1_paused_until(asked.name, now) IS NOT NULL,
        (SELECT coalesce(sum(room.weight), 0)::bigint FROM unnest((at.known).kept) AS room WHERE room.ends > now),
        round((at.known).mean)::bigint,
        permits.held, permits.granted,
        waits.parked, waits.waiting - waits.parked - waits.in_transit, waits.in_transit, waits.set_aside,
        now - waits.oldest, waits.outbox,
        CASE WHEN waits.outbox > 0 THEN now - celery_semaphore.v1_oldest_outgoing(asked.name) END
    FROM unnest(_names) WITH ORDINALITY AS asked (name, n)
    LEFT JOIN LATERAL ( -- OFFSET: it finds each row by its name; a join could read all of them
        SELECT r AS known FROM celery_semaphore.resource AS r WHERE r.name = asked.name OFFSET 0
    ) AS at ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(p.weight) FILTER (WHERE NOT p.granted), 0)::bigint AS held,
            coalesce(sum(p.weight) FILTER (WHERE p.granted), 0)::bigint AS granted
        FROM celery_semaphore.permit AS p
        WHERE p.resource = asked.name AND p.holder IS NOT NULL
        AND (p.ends > CASE WHEN p.granted THEN now ELSE permits_ended_by END OR in_grace)
    ) AS permits
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE w.state NOT IN ('granted', 'ended')) AS waiting,
            count(*) FILTER (WHERE w.state IN ('in_line', 'set_aside') AND w.payload IS NOT NULL) AS parked,
            count(*) FILTER (WHERE w.state = 'in_transit') AS in_transit,
            count(*) FILTER (WHERE w.state = 'set_aside') AS set_aside,
            min(w.place) FILTER (WHERE w.state NOT IN ('granted', 'ended')) AS oldest,
            count(*) FILTER (WHERE w.outbox) AS outbox
        FROM celery_semaphore.waiter AS w WHERE w.resource = asked.name
    ) AS waits
    CROSS JOIN LATERAL celery_semaphore.v1_limit_set(asked.name) AS set_one (value)
    ORDER BY asked.n;
END $$;

-- Return the token of the oldest grant among the messages to send, which is when it was granted; or null.
CREATE FUNCTION celery_semaphore.v1_oldest_outgoing(_name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT min(p.token) FROM celery_semaphore.permit AS p
    WHERE p.resource = _name AND p.granted AND p.holder IS NOT NULL AND (
        SELECT w.outbox AND w.state = 'granted' FROM celery_semaphore.waiter AS w
        WHERE w.id = celery_semaphore.v1_wait_id(celery_semaphore.v1_nonce_of_grant(p.holder)) AND w.resource = _name)
$$;
