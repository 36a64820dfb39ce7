-- R3, H9: release a permit of a full resource and grant it to the first in line, a reachable wait of a session with
-- this one claim. Most releases end so. v1_release_slow_path would do the same, at several times the cost.
--
-- Return null if any condition is not met, and then nothing was changed.
CREATE FUNCTION celery_semaphore.v1_pass_on(
    _home text, _holder text, _now bigint, _call celery_semaphore.v1_call
) RETURNS celery_semaphore.v1_handed LANGUAGE plpgsql AS $$
DECLARE
    head celery_semaphore.waiter;
    taken_up_by bigint := _now + celery_semaphore.v1_grant_lasts();
    epoch bigint;
    since bigint;
    reap_at bigint;
BEGIN
    SELECT * INTO head FROM celery_semaphore.waiter AS w
    WHERE w.resource = _home AND w.state = 'in_line' ORDER BY w.urgency, w.place, w.nonce LIMIT 1;
    IF NOT FOUND OR cardinality(head.resources) > 1 OR NOT celery_semaphore.v1_has_room(head.session) THEN
        RETURN NULL;
    END IF;
    UPDATE celery_semaphore.permit AS p
    SET holder = celery_semaphore.v1_grant_name(head.nonce), granted = true, urgency = head.urgency, place = head.place,
        weight = head.weight, token = held.token, last = held.token, since = _now, ends = taken_up_by,
        epoch = e.id, restored = false
    FROM celery_semaphore.epoch AS e, (
        SELECT r.too_heavy_above, r.kept, r.reap_at,
            coalesce((
                SELECT d.value FROM celery_semaphore.decision AS d
                WHERE d.name = ANY (celery_semaphore.v1_decision_names(_home)) AND d.until > _now
                ORDER BY d.name DESC LIMIT 1
            ), celery_semaphore.v1_declared(_home, r, _now)) AS in_force
        FROM celery_semaphore.resource AS r WHERE r.name = _home
    ) AS at, (
        SELECT
            sum(every.weight) FILTER (WHERE every.holder IS NOT NULL) AS occupied,
            greatest(_now, max(every.last) + 1) AS token,
            max(every.since) FILTER (WHERE every.holder = _holder) AS since,
            bool_and(every.ends > _now
                AND every.ends <= celery_semaphore.v1_latest_end(_now, _call.lease, _call.take_up)
                AND every.holder <> celery_semaphore.v1_grant_name(head.nonce)
            ) FILTER (WHERE every.holder IS NOT NULL) AS stay
        FROM celery_semaphore.permit AS every WHERE every.resource = _home
    ) AS held
    WHERE e.one AND celery_semaphore.v1_is_current(e, _call, _now)
    AND p.resource = _home AND p.holder = _holder AND p.again IS DISTINCT FROM _holder
    -- Nothing here must be reaped first.
    AND held.stay AND (celery_semaphore.v1_next_wait_end(_home) <= _now) IS NOT TRUE
    AND at.too_heavy_above IS NULL AND held.occupied - p.weight + head.weight = at.in_force -- no room is left over
    AND at.kept IS NULL -- C4
    AND head.epoch = e.id AND celery_semaphore.v1_asked_since(head.session, _now - _call.lease)
    AND ( -- the next in line need not be stepped over
        SELECT next.weight <= at.in_force
            AND (next.session = ''
                OR next.epoch = e.id AND celery_semaphore.v1_asked_since(next.session, _now - _call.lease))
        FROM celery_semaphore.waiter AS next WHERE next.resource = _home AND next.state = 'in_line'
        ORDER BY next.urgency, next.place, next.nonce OFFSET 1 LIMIT 1
    ) IS NOT FALSE
    AND ( -- the holder has no wait from an acquire that lost its answer
        SELECT true FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_wait_id(_holder)
    ) IS NULL
    AND ( -- no message must be sent; the order selects the index
        SELECT true FROM celery_semaphore.waiter AS w
        WHERE w.resource = _home AND w.outbox ORDER BY w.urgency, w.place, w.nonce LIMIT 1
    ) IS NULL
    RETURNING e.id, held.since, at.reap_at INTO epoch, since, reap_at;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE celery_semaphore.waiter AS w SET state = 'granted' WHERE w.id = head.id;
    PERFORM celery_semaphore.v1_update_mean(_home, greatest(0, _now - since), true);
    IF reap_at > least(taken_up_by, _now + _call.lease) THEN
        PERFORM celery_semaphore.v1_mark_in_use(_home, least(taken_up_by, _now + _call.lease));
    END IF;
    RETURN (epoch, false, '{}'::text[], '{}'::text[], ARRAY[head.nonce]);
END $$;
