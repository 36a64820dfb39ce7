-- Grant the holder a permit on all resources, or refuse it and keep its place in line.
--
-- Most calls end in this file: their holder is new, or takes up a grant of one resource. All other calls take
-- v1_acquire_slow_path. These functions use few statements, because each statement has a fixed cost, and all other
-- calls of the resources wait meanwhile.
CREATE FUNCTION celery_semaphore.v1_acquire(
    _call celery_semaphore.v1_call, _a celery_semaphore.v1_acquisition
) RETURNS celery_semaphore.v1_answer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    answer celery_semaphore.v1_answer;
BEGIN
    IF _a.message IS NULL AND (
        cardinality(_a.resources) = 1 AND celery_semaphore.v1_enter_one(_a.resources[1], _call.lock_timeout)
        OR cardinality(_a.resources) > 1 AND _a.carried = ''
        AND celery_semaphore.v1_enter_several(_a.resources, _call.lock_timeout)
    ) THEN
        IF _a.carried = '' THEN
            answer := celery_semaphore.v1_acquire_new(_a, celery_semaphore.v1_now(_call.clock), _call);
        ELSE
            answer := celery_semaphore.v1_acquire_granted(_a, celery_semaphore.v1_now(_call.clock), _call);
        END IF;
        IF answer.epoch IS NOT NULL THEN
            RETURN answer;
        END IF;
    END IF;
    RETURN celery_semaphore.v1_acquire_slow_path(_call, _a);
END $$;

-- A new holder is admitted if there is room and no wait on all resources (A14), and refused if one has too little
-- room (C4). If any condition is not met, return null: then nothing was changed.
CREATE FUNCTION celery_semaphore.v1_acquire_new(
    _a celery_semaphore.v1_acquisition, _now bigint, _call celery_semaphore.v1_call
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    answer celery_semaphore.v1_answer;
    at celery_semaphore.v1_resource;
    ats celery_semaphore.v1_resource[];
    home text;
    weight bigint;
    refuses int;
    has_rows bool := true;
    m celery_semaphore.v1_moment;
BEGIN
    answer.token := _now;
    FOR n IN 1..cardinality(_a.resources) LOOP
        home := _a.resources[n];
        weight := _a.weights[n];
        SELECT e.id, home, CASE -- as v1_declared does, at less cost
                WHEN celery_semaphore.v1_smallest_lately(r, _now) > celery_semaphore.v1_smallest_lately(every, _now)
                    OR _now >= r.declared_until + _call.lease AND every.name IS NOT NULL OR r.declared IS NULL
                    THEN celery_semaphore.v1_smallest_lately(every, _now)
                ELSE celery_semaphore.v1_smallest_lately(r, _now)
            END, (
                SELECT d.value FROM celery_semaphore.decision AS d
                WHERE d.name = ANY (celery_semaphore.v1_decision_names(home)) AND d.until > _now
                ORDER BY d.name DESC LIMIT 1
            ), r.mean, coalesce(held.occupied, 0), held.last, held.free,
            (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = home LIMIT 1) IS NOT NULL
        INTO answer.epoch, at.name, at.declared, at.operator, at.mean, at.occupied, at.token, at.free, at.waits
        FROM celery_semaphore.epoch AS e, celery_semaphore.resource AS r
        LEFT JOIN celery_semaphore.resource AS every -- A18
            ON every.name = CASE WHEN strpos(home, '/') > 0 THEN split_part(home, '/', 1) || '//' END
            AND _now < every.declared_until + _call.lease,
        (
            SELECT
                sum(p.weight) FILTER (WHERE p.holder IS NOT NULL) AS occupied,
                max(p.last) AS last,
                min(p.row_no) FILTER (WHERE p.holder IS NULL) AS free,
                bool_or(
                    p.holder = _a.holder OR p.granted AND p.holder = celery_semaphore.v1_grant_name(_a.holder)
                ) AS mine,
                bool_and(p.ends > _now AND p.ends <= celery_semaphore.v1_latest_end(_now, _call.lease, _call.take_up))
                    FILTER (WHERE p.holder IS NOT NULL) AS stay
            FROM celery_semaphore.permit AS p WHERE p.resource = home
        ) AS held
        WHERE e.one AND celery_semaphore.v1_is_current(e, _call, _now)
        AND r.name = home AND celery_semaphore.v1_is_declared(r, _a.limits[n], _now, _call.lease)
        AND (_a.limits[n] IS NOT NULL OR strpos(home, '/') = 0 OR _now < r.declared_until + _call.lease) -- A18
        AND r.reap_at + 0 <= _now + _call.lease -- not by the index on reap_at
        AND held.mine IS NOT TRUE AND held.stay IS NOT FALSE -- nothing here must be reaped first
        AND r.kept IS NULL -- C4
        AND (
            SELECT true FROM celery_semaphore.released AS d -- not by the index on until
            WHERE d.holder = celery_semaphore.v1_digest(home, _a.holder) AND d.until + 0 > _now
        ) IS NULL
        -- no wait of its own, here or elsewhere (A19), from a call that lost its answer
        AND (SELECT true FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_wait_id(_a.holder)) IS NULL
        AND (SELECT true FROM celery_semaphore.message AS s WHERE s.resource = home AND s.task = _a.task) IS NULL;
        IF NOT FOUND OR at.waits AND celery_semaphore.v1_next_wait_end(home) <= _now THEN
            RETURN NULL;
        ELSIF (weight <= coalesce(at.operator, at.declared)) IS NOT TRUE THEN
            IF refuses IS NULL THEN
                RETURN NULL; -- C1, C2, or no limit is known
            END IF;
        ELSIF at.occupied + weight > coalesce(at.operator, at.declared) THEN
            refuses := coalesce(refuses, n);
        ELSIF at.waits THEN
            RETURN NULL; -- perhaps C5
        END IF;
        has_rows := has_rows AND at.free IS NOT NULL;
        answer.token := greatest(answer.token, at.token + 1);
        ats[n] := at;
    END LOOP;
    IF refuses IS NOT NULL THEN
        _a.ticket := ROW(255 - greatest(0, least(255, _a.priority)), _now, _a.holder)::celery_semaphore.v1_ticket;
        m := (_now, answer.epoch, 0, false, _call.lease, _call.take_up, _call.lease, _now, 0);
        IF cardinality(ats) > 1 THEN
            refuses := (celery_semaphore.v1_refusing_claim(ats, _a.weights, _a.ticket, NULL, m)).n;
        END IF;
        RETURN celery_semaphore.v1_refuse(_a, ats, refuses, 'saturated', NULL, m); -- A13 by C4
    END IF;
    IF NOT has_rows THEN
        RETURN NULL;
    END IF;
    answer.since := _now;
    answer.ends := _now + _call.lease;
    FOREACH at IN ARRAY ats LOOP
        UPDATE celery_semaphore.permit AS p
        SET holder = _a.holder, granted = false, urgency = NULL, place = NULL,
            weight = _a.weights[array_position(_a.resources, at.name)], token = answer.token, last = answer.token,
            since = _now, ends = answer.ends, epoch = answer.epoch, restored = false
        WHERE p.resource = at.name AND p.row_no = at.free;
    END LOOP;
    RETURN answer;
END $$;

-- A10, E8: a holder takes up the grant of its wait.
CREATE FUNCTION celery_semaphore.v1_acquire_granted(
    _a celery_semaphore.v1_acquisition, _now bigint, _call celery_semaphore.v1_call
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    home text := _a.resources[1];
    its_nonce text := (celery_semaphore.v1_parse_ticket(_a.carried)).nonce;
    answer celery_semaphore.v1_answer;
BEGIN
    UPDATE celery_semaphore.permit AS p
    SET holder = _a.holder, granted = false, urgency = NULL, place = NULL, since = _now, ends = _now + _call.lease,
        restored = false
    FROM celery_semaphore.epoch AS e
    WHERE e.one AND celery_semaphore.v1_is_current(e, _call, _now)
    AND p.resource = home AND p.holder = celery_semaphore.v1_grant_name(its_nonce)
    AND p.weight = _a.weights[1] AND p.epoch = e.id
    AND ( -- its wait has no other claims (A19)
        SELECT w.resources = _a.resources FROM celery_semaphore.waiter AS w
        WHERE w.id = celery_semaphore.v1_wait_id(its_nonce)
    )
    AND (
        SELECT true FROM celery_semaphore.resource AS r
        WHERE r.name = home AND celery_semaphore.v1_is_declared(r, _a.limits[1], _now, _call.lease)
        AND r.reap_at + 0 <= _now + _call.lease -- not by the index on reap_at
    )
    AND ( -- the holder has no permit yet, and nothing here must be reaped first
        SELECT bool_and(held.holder <> _a.holder AND held.ends > _now
            AND held.ends <= celery_semaphore.v1_latest_end(_now, _call.lease, _call.take_up))
        FROM celery_semaphore.permit AS held WHERE held.resource = home AND held.holder IS NOT NULL
    )
    AND (celery_semaphore.v1_next_wait_end(home) <= _now) IS NOT TRUE
    AND (
        SELECT true FROM celery_semaphore.released AS d
        WHERE d.holder = celery_semaphore.v1_digest(home, _a.holder) AND d.until + 0 > _now -- not by the index on until
    ) IS NULL
    RETURNING e.id, p.token, p.since, p.ends INTO answer.epoch, answer.token, answer.since, answer.ends;
    IF FOUND THEN
        DELETE FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_wait_id(its_nonce);
        DELETE FROM celery_semaphore.message AS s WHERE s.resource = home AND s.task = _a.task;
    END IF;
    RETURN answer;
END $$;
