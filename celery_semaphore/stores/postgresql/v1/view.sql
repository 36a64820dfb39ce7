-- Show operators the state of resources.

-- Return one resource at this instant: [limit or null, whether set by an operator, mean, now, waiting,
-- [[holder or ticket, token, weight, since, ends, granted]...], [[ticket, kind, weight, urgency, place, due,
-- session, reachable]...], end of the grace or null, end of the pause or null, the limit in force if no operator set
-- one, the process that declared it, the weight of kept room]
-- It takes no lock, since counting a long line would delay all other calls. One statement sees each other call as a
-- whole or not at all.
CREATE FUNCTION celery_semaphore.v1_snapshot(
    _call celery_semaphore.v1_call, _name text, _most int, _skip int,
    OUT epoch bigint, OUT seen json
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
BEGIN
    m := celery_semaphore.v1_enter('{}', _call);
    epoch := m.epoch;
    SELECT json_build_array(
        coalesce(set_one.value, celery_semaphore.v1_declared(_name, r, m.permits_ended_by)), set_one.value IS NOT NULL, r.mean, m.now,
        (SELECT count(*) FROM celery_semaphore.waiter AS w
            WHERE w.resource = _name AND w.state IN ('in_line', 'in_transit', 'set_aside')),
        (SELECT coalesce(json_agg(json_build_array(
            CASE WHEN p.granted
                THEN celery_semaphore.v1_format_ticket(
                    (p.urgency, p.place, celery_semaphore.v1_nonce_of_grant(p.holder)))
                ELSE p.holder
            END, p.token, p.weight, p.since, p.ends, p.granted)
                         ORDER BY p.token), '[]')
         FROM celery_semaphore.permit AS p
         WHERE p.resource = _name AND p.holder IS NOT NULL
         AND (NOT celery_semaphore.v1_is_over(p.ends, p.granted, m) OR m.in_grace)),
        (SELECT coalesce(json_agg(json_build_array(
            celery_semaphore.v1_format_ticket((first.urgency, first.place, first.nonce)),
            first.kind, first.weight, first.urgency, first.place, first.due, first.session,
            first.state <> 'in_transit'
                AND NOT celery_semaphore.v1_is_out_of_reach(first.session, first.epoch, m)
         ) ORDER BY first.urgency, first.place, first.nonce), '[]')
         FROM (
            SELECT w.urgency, w.place, w.nonce, w.kind, w.weight, w.due, w.session, w.epoch, w.state
            FROM unnest('{in_line,in_transit,set_aside}'::text[]) AS states (state), LATERAL (
                SELECT * FROM celery_semaphore.waiter AS each
                WHERE each.resource = _name AND each.state = states.state
                ORDER BY each.urgency, each.place, each.nonce LIMIT _most + _skip
            ) AS w ORDER BY w.urgency, w.place, w.nonce LIMIT _most OFFSET _skip
         ) AS first),
        CASE WHEN m.in_grace THEN m.grace_until END, celery_semaphore.v1_paused_until(_name, m.now),
        celery_semaphore.v1_declared(_name, r, m.permits_ended_by), celery_semaphore.v1_declared_by(_name, r, m.permits_ended_by),
        (SELECT coalesce(sum(room.weight), 0) FROM celery_semaphore.v1_lasting_room(r.kept, m) AS room))
    INTO seen
    FROM (SELECT) AS one
    LEFT JOIN celery_semaphore.resource AS r ON r.name = _name
    CROSS JOIN LATERAL celery_semaphore.v1_limit_set(_name) AS set_one (value);
END $$;

-- Return these resources in the given order, without their waits.
CREATE FUNCTION celery_semaphore.v1_snapshots(
    _call celery_semaphore.v1_call, _names text[]
) RETURNS TABLE (epoch bigint, seen json) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home text;
BEGIN
    FOREACH home IN ARRAY _names LOOP
        RETURN QUERY SELECT *
            FROM celery_semaphore.v1_snapshot(_call, home, 0, 0);
    END LOOP;
END $$;

-- Return the resources in use after this name, in the order of their names.
CREATE FUNCTION celery_semaphore.v1_resources(_behind text, _most int) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT r.name FROM celery_semaphore.resource AS r
        WHERE r.name > _behind AND coalesce(
            (SELECT true FROM celery_semaphore.permit AS p WHERE p.resource = r.name AND p.holder IS NOT NULL LIMIT 1),
            (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = r.name LIMIT 1))
        ORDER BY r.name LIMIT _most);
END $$;
