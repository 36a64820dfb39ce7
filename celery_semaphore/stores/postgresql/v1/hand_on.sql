-- Grant free permits to the first wait in line: H1 to H11 of docs/maintain/architecture.md. All claims of the head
-- are tried at one instant. If another claim refuses it, it moves to that resource's line. If it finds no room here,
-- it blocks the line, or heavy waits would starve. If the line is empty, a free permit goes to the next acquire.

CREATE TYPE celery_semaphore.v1_handed AS (
    epoch bigint,
    again bool, -- the caller must call again: there is more to hand on
    needed text[], -- all resources of a head, if the call did not declare them
    outgoing text[], -- the resources with messages to send
    granted text[] -- the nonces of waits that a session must take up
);

-- Look at a resource for a wait: if no acquire declared a limit, use the one that the wait declared.
CREATE FUNCTION celery_semaphore.v1_read_for_wait(
    _name text, _limit bigint, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_resource LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource := celery_semaphore.v1_read(_name, NULL, _m);
BEGIN
    at.declared := coalesce(at.declared, _limit);
    RETURN at;
END $$;

-- H8: move a wait to the line of another resource.
CREATE FUNCTION celery_semaphore.v1_move_wait(
    _head celery_semaphore.waiter, _n int, _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.waiter AS w
    SET resource = w.resources[_n], weight = w.weights[_n], own_limit = w.limits[_n]
    WHERE w.id = _head.id;
    PERFORM celery_semaphore.v1_mark_in_use(_head.resources[_n], least(
        _m.now + _m.lease, _head.ends, celery_semaphore.v1_rises_at(_head.resources[_n], _m))); -- O3
END $$;

-- H9, E4: grant all claims of a wait.
CREATE FUNCTION celery_semaphore.v1_grant(
    _head celery_semaphore.waiter, _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ends bigint := _m.now + CASE WHEN _head.session <> '' THEN celery_semaphore.v1_grant_lasts() ELSE _m.take_up END;
    name text := celery_semaphore.v1_grant_name(_head.nonce);
    ats celery_semaphore.v1_resource[];
    token bigint;
BEGIN
    FOR n IN 1..cardinality(_head.resources) LOOP
        ats[n] := celery_semaphore.v1_read(_head.resources[n], name, _m);
        IF ats[n].kept IS NOT NULL THEN
            PERFORM celery_semaphore.v1_end_kept_room(_head.nonce, ats[n].name); -- H12
        END IF;
    END LOOP;
    token := celery_semaphore.v1_new_token(ats, _m.now);
    FOR n IN 1..cardinality(ats) LOOP
        PERFORM celery_semaphore.v1_write_permit(
            ats[n], name, _head.weights[n], token, _m.now, ends, _m.epoch, celery_semaphore.v1_ticket_of(_head));
        PERFORM celery_semaphore.v1_mark_in_use(ats[n].name, least(ends, _m.now + _m.lease));
    END LOOP;
    UPDATE celery_semaphore.waiter AS w SET state = 'granted', outbox = w.payload IS NOT NULL WHERE w.id = _head.id;
    IF _head.payload IS NOT NULL THEN
        PERFORM celery_semaphore.v1_mark_in_use(_head.resource, _m.now);
    END IF;
END $$;

-- Try the head of one line. Return 'granted', 'moved', 'needs' if it has resources that this call did not declare,
-- 'more' if the next call must step over more waits to find the head, or null if nothing can be handed on. `left_by`:
-- the resources where it kept room and keeps none now (H12).
CREATE FUNCTION celery_semaphore.v1_try_head(
    _home text, _names text[], _m celery_semaphore.v1_moment,
    OUT what text, OUT needed text[], OUT granted text, OUT left_by text[]
) LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource := celery_semaphore.v1_read(_home, NULL, _m);
    head celery_semaphore.waiter;
    ats celery_semaphore.v1_resource[];
    refusing record;
BEGIN
    IF at.waits AND NOT _m.in_grace THEN -- else H1
        head := celery_semaphore.v1_first_in_line(at, _m);
    END IF;
    IF head.id IS NULL THEN
        RETURN; -- H3: a free permit goes to the next acquire
    ELSIF celery_semaphore.v1_is_out_of_reach(head.session, head.epoch, _m)
        OR NOT celery_semaphore.v1_fits_limit(head.weight, head.own_limit, coalesce(at.operator, at.declared)) THEN
        what := 'more';
        RETURN;
    ELSIF coalesce(at.operator, at.declared) = 0 THEN -- H1
        RETURN;
    END IF;
    at := celery_semaphore.v1_read(_home, NULL, _m);
    at.declared := coalesce(at.declared, head.own_limit);
    IF NOT celery_semaphore.v1_has_room(head.session) -- H11
        OR celery_semaphore.v1_refusal(at, head.weight, celery_semaphore.v1_ticket_of(head), _m) IS NOT NULL THEN
        RETURN; -- H6
    END IF;
    IF NOT head.resources <@ _names THEN -- H7: the head blocks the line until a call has all of them
        what := 'needs';
        needed := head.resources;
        RETURN;
    END IF;
    FOR n IN 1..cardinality(head.resources) LOOP
        ats[n] := CASE WHEN head.resources[n] = _home THEN at
            ELSE celery_semaphore.v1_read_for_wait(head.resources[n], head.limits[n], _m) END;
    END LOOP;
    refusing := celery_semaphore.v1_refusing_claim(
        ats, head.weights, celery_semaphore.v1_ticket_of(head), _home, _m);
    IF refusing.n IS NULL THEN
        PERFORM celery_semaphore.v1_grant(head, _m);
        what := 'granted';
        granted := CASE WHEN head.session <> '' THEN head.nonce END;
    ELSE
        PERFORM celery_semaphore.v1_move_wait(head, refusing.n, _m);
        left_by := celery_semaphore.v1_keep_room(head, refusing.n, refusing.reason, _m);
        what := 'moved';
    END IF;
END $$;

-- Hand on the free permits of these resources. v1_reap_and_read must have reaped them in this call.
CREATE FUNCTION celery_semaphore.v1_hand_on(_names text[], _m celery_semaphore.v1_moment)
RETURNS celery_semaphore.v1_handed LANGUAGE plpgsql AS $$
DECLARE
    handed celery_semaphore.v1_handed := (_m.epoch, false, '{}'::text[], '{}'::text[], '{}'::text[]);
    done int := 0;
    still text[] := _names; -- to try
    home text;
    tried record;
BEGIN
    WHILE cardinality(still) > 0 LOOP
        home := still[1];
        still := still[2:];
        LOOP
            tried := celery_semaphore.v1_try_head(home, _names, _m);
            IF tried.what IN ('granted', 'moved') THEN
                done := done + 1;
                still := still || tried.left_by;
                IF tried.granted IS NOT NULL THEN
                    handed.granted := handed.granted || tried.granted;
                END IF;
            END IF;
            handed.again := done >= 100 OR coalesce(tried.what = 'more', false); -- H10
            EXIT WHEN handed.again OR tried.what IS NULL OR tried.what = 'needs';
        END LOOP;
        IF tried.what = 'needs' THEN
            handed.needed := tried.needed;
        END IF;
        EXIT WHEN handed.again;
    END LOOP;
    FOREACH home IN ARRAY _names LOOP
        PERFORM 1 FROM celery_semaphore.waiter AS w
        WHERE w.resource = home AND w.outbox ORDER BY w.urgency, w.place, w.nonce LIMIT 1;
        IF FOUND THEN
            handed.outgoing := handed.outgoing || home;
        END IF;
        -- The caller may die before it calls again: then the next reaper continues.
        IF handed.again OR handed.needed <> '{}' THEN
            PERFORM celery_semaphore.v1_mark_in_use(home, _m.now);
        ELSIF _m.in_grace THEN
            PERFORM celery_semaphore.v1_mark_in_use(home, _m.grace_until);
        END IF;
    END LOOP;
    RETURN handed;
END $$;
