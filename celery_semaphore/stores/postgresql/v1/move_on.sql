-- H8: move waits to the line of another resource that refuses them.

-- Return how long after 100 moves without a grant a reaper looks again, in microseconds.
CREATE FUNCTION celery_semaphore.v1_look_again() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 100000::bigint $$;

-- Move a wait to the line of another resource. A row of its ticket there, mostly of a later refusal with other claims,
-- stays, with the more urgent of both ranks. But one without a message gives way to one that has one, which may be the
-- only message of the task that is left. Two rows of one wait would make every call fail that hands on here. Return
-- whether it stands there with its claims: then it stands for those behind it here, too.
CREATE FUNCTION celery_semaphore.v1_move_wait(
    _head celery_semaphore.waiter, _other text, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    n int := array_position(_head.resources, _other);
    other_id bigint := celery_semaphore.v1_digest(_other, _head.nonce);
    gone celery_semaphore.waiter; -- the row that goes
    stands bool := false;
BEGIN
    DELETE FROM celery_semaphore.waiter AS there
    WHERE there.id = other_id AND there.payload IS NULL AND _head.payload IS NOT NULL
    RETURNING there.* INTO gone;
    IF gone.state = 'in_line' THEN
        PERFORM celery_semaphore.v1_wake_others(_other, gone.resources);
    END IF;
    UPDATE celery_semaphore.waiter AS there SET urgency = least(there.urgency, _head.urgency)
    WHERE there.id = other_id;
    IF FOUND THEN
        DELETE FROM celery_semaphore.waiter AS w WHERE w.id = _head.id;
    ELSE
        PERFORM celery_semaphore.v1_step_in(_other, _head.resources);
        UPDATE celery_semaphore.waiter AS w
        SET resource = _other, weight = w.weights[n], own_limit = w.limits[n],
            state = CASE WHEN EXISTS ( -- another message of it has that grant
                SELECT FROM celery_semaphore.permit AS p
                WHERE p.resource = _other AND p.holder = celery_semaphore.v1_grant_name(w.nonce)
            ) THEN 'granted' ELSE w.state END,
            urgency = least(w.urgency, gone.urgency), id = other_id
        WHERE w.id = _head.id RETURNING w.state <> 'granted' INTO stands;
    END IF;
    PERFORM celery_semaphore.v1_wake(ARRAY[_other]);
    PERFORM celery_semaphore.v1_mark_in_use(_other, least(
        _m.now + _m.lease, _head.ends, celery_semaphore.v1_paused_until(_other, _m.now))); -- O3
    RETURN stands;
END $$;

-- H8: move the head to the line of another resource. If one of the next hundred behind it does not claim that resource,
-- those before that one move, too; if all of them claim it, they move, and a reaper looks again. Return how many moved,
-- and whether to go on.
CREATE FUNCTION celery_semaphore.v1_move_on(
    _at celery_semaphore.v1_resource, _head celery_semaphore.waiter, _other text, _m celery_semaphore.v1_moment,
    OUT moved int, OUT what text
) LANGUAGE plpgsql AS $$
DECLARE
    each record;
    seen int := 0;
    passes bool := false;
    up_to celery_semaphore.v1_ticket;
    next celery_semaphore.waiter;
BEGIN
    moved := 1;
    IF NOT celery_semaphore.v1_move_wait(_head, _other, _m) THEN
        what := 'moved';
        RETURN;
    END IF;
    PERFORM 1 FROM celery_semaphore.resource AS r WHERE r.name = _at.name AND r.line_claims IS NOT NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    FOR each IN
        SELECT w.resources, ROW(w.urgency, w.place, w.nonce)::celery_semaphore.v1_ticket AS ticket
        FROM celery_semaphore.waiter AS w WHERE w.resource = _at.name AND w.state = 'in_line'
        AND (w.urgency, w.place, w.nonce) > (_head.urgency, _head.place, _head.nonce)
        ORDER BY w.urgency, w.place, w.nonce LIMIT 100
    LOOP
        seen := seen + 1;
        up_to := each.ticket;
        passes := array_position(each.resources, _other) IS NULL;
        EXIT WHEN passes;
    END LOOP;
    IF NOT passes THEN
        IF seen < 100 THEN
            RETURN; -- all that are left claim it
        END IF;
        up_to.nonce := up_to.nonce || E'\x01'; -- the last one, too
        PERFORM celery_semaphore.v1_mark_in_use(_at.name, _m.now + celery_semaphore.v1_look_again());
    END IF;
    LOOP
        next := celery_semaphore.v1_first_in_line(_at, _m, up_to);
        IF next.id IS NULL THEN
            what := CASE WHEN passes THEN 'moved' END;
            RETURN;
        ELSIF celery_semaphore.v1_steps_over_more(_at, next, _m) THEN
            what := 'more';
            RETURN;
        ELSIF NOT celery_semaphore.v1_has_room(next.session) THEN -- H11
            RETURN;
        END IF;
        moved := moved + 1;
        PERFORM celery_semaphore.v1_move_wait(next, _other, _m);
    END LOOP;
END $$;

-- Return whether the next call must step over more waits to find the first one.
CREATE FUNCTION celery_semaphore.v1_steps_over_more(
    _at celery_semaphore.v1_resource, _first celery_semaphore.waiter, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RETURN celery_semaphore.v1_is_out_of_reach(_first.session, _first.epoch, _m)
        OR NOT celery_semaphore.v1_fits_limit(_first.weight, _first.own_limit, coalesce(_at.operator, _at.declared));
END $$;
