-- Decide the calls of release that v1_release does not: several resources, later messages of a task, messages that were
-- delivered again while they ran, holders without a permit, tickets, less frequent ways to hand on, and the grace.
CREATE FUNCTION celery_semaphore.v1_release_slow_path(
    _call celery_semaphore.v1_call,
    _holder text, _task text, _message text, _remember bigint, _resources text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    at celery_semaphore.v1_resource;
    ticket celery_semaphore.v1_ticket := celery_semaphore.v1_parse_ticket(_holder);
    waits bool := false;
    again bool := false; -- whether its message was delivered again while it ran
    one text;
BEGIN
    m := celery_semaphore.v1_enter(_resources, _call);
    FOREACH one IN ARRAY _resources LOOP
        at := celery_semaphore.v1_reap_and_read(one, _holder, m); -- R2
        again := celery_semaphore.v1_end_permit(at, _holder, m) OR again; -- R3, R4
        waits := waits OR at.waits;
    END LOOP;
    IF _message IS NOT NULL OR again AND _task <> '' THEN
        PERFORM celery_semaphore.v1_mark_run(_resources[1], _task, coalesce(_message, ''), _holder, m.now, _remember);
    END IF;
    IF random() < 0.01 THEN -- often enough without a reaper
        PERFORM celery_semaphore.v1_delete_tombstones(m.now);
    END IF;
    IF ticket.nonce IS NOT NULL THEN
        PERFORM celery_semaphore.v1_end_wait(ticket.nonce, true, _resources, m.now);
    END IF;
    IF waits THEN
        PERFORM celery_semaphore.v1_end_wait(_holder, false, _resources, m.now);
        RETURN celery_semaphore.v1_hand_on(_resources, m); -- R7
    END IF;
    RETURN (m.epoch, false, '{}'::text[], '{}'::text[], '{}'::text[]);
END $$;

-- End the permit, and return whether its message was delivered again while it ran.
CREATE FUNCTION celery_semaphore.v1_end_permit(
    _at celery_semaphore.v1_resource, _holder text, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    held_for float8;
    again text;
BEGIN
    IF _at.mine IS NOT NULL THEN
        UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = _m.now
        WHERE p.resource = _at.name AND p.row_no = _at.mine
        RETURNING greatest(0, _m.now - p.since), p.again INTO held_for, again;
        PERFORM celery_semaphore.v1_update_mean(_at.name, held_for, _at.waits);
    END IF;
    PERFORM celery_semaphore.v1_mark_released(_at.name, _holder, _m.now + _m.lease);
    RETURN coalesce(again = _holder, false);
END $$;

-- R6, E14: end the wait of an acquire that lost its answer, and the grant that it may have got since. A wait with a
-- parked message, or whose message was sent, ends only if `_parked` is true.
CREATE FUNCTION celery_semaphore.v1_end_wait(
    _nonce text, _parked bool, _resources text[], _now bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM celery_semaphore.waiter AS w
    WHERE w.id = celery_semaphore.v1_wait_id(_nonce) AND w.resource = ANY (_resources)
    AND (_parked OR w.payload IS NULL AND NOT (w.state = 'granted' AND w.session = ''));
    IF FOUND OR _parked THEN
        PERFORM celery_semaphore.v1_free_rows(celery_semaphore.v1_grant_name(_nonce), _resources, _now);
        PERFORM celery_semaphore.v1_end_kept_room(_nonce, each.name) FROM unnest(_resources) AS each (name); -- H12
    END IF;
END $$;
