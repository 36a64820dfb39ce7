-- Let a wait that another of its claims refuses keep the room that it found: row H12 of docs/maintain/architecture.md.
-- Only calls that have locked a resource write its kept room.

-- Return the kept room whose time lasts. After the clock stepped back it may end later than any can: that is over, too.
CREATE FUNCTION celery_semaphore.v1_lasting_room(
    _kept celery_semaphore.kept_room[], _m celery_semaphore.v1_moment
) RETURNS SETOF celery_semaphore.kept_room LANGUAGE sql IMMUTABLE AS $$
    SELECT room.* FROM unnest(_kept) AS room
    WHERE room.ends > _m.now AND room.ends <= celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up)
$$;

-- Return the room that other waits keep, which stand before this ticket. So the oldest wait never waits for kept room,
-- and no two wait for each other. What is over is deleted before any call comes here.
CREATE FUNCTION celery_semaphore.v1_room_before(
    _kept celery_semaphore.kept_room[], _ticket celery_semaphore.v1_ticket
) RETURNS SETOF celery_semaphore.kept_room LANGUAGE sql IMMUTABLE AS $$
    SELECT room.* FROM unnest(_kept) AS room
    WHERE room.nonce <> _ticket.nonce
    AND (room.urgency, room.place, room.nonce) < (_ticket.urgency, _ticket.place, _ticket.nonce)
$$;

-- C4: return the weight of that room.
CREATE FUNCTION celery_semaphore.v1_kept_before(
    _kept celery_semaphore.kept_room[], _ticket celery_semaphore.v1_ticket
) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(sum(room.weight), 0)::bigint FROM celery_semaphore.v1_room_before(_kept, _ticket) AS room
$$;

-- Return the kept room without that of this wait; null if none is left.
CREATE FUNCTION celery_semaphore.v1_room_of_others(
    _kept celery_semaphore.kept_room[], _nonce text
) RETURNS celery_semaphore.kept_room[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(room) FROM unnest(_kept) AS room WHERE room.nonce <> _nonce
$$;

-- Delete the kept room that is over, so that calls take the short ways again; return the rest.
CREATE FUNCTION celery_semaphore.v1_delete_room_over(
    _at celery_semaphore.v1_resource, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.kept_room[] LANGUAGE plpgsql AS $$
DECLARE
    lasting celery_semaphore.kept_room[] := (
        SELECT array_agg(room) FROM celery_semaphore.v1_lasting_room(_at.kept, _m) AS room);
BEGIN
    IF cardinality(lasting) IS DISTINCT FROM cardinality(_at.kept) THEN
        UPDATE celery_semaphore.resource AS r SET kept = lasting WHERE r.name = _at.name;
    END IF;
    RETURN lasting;
END $$;

-- Return whether this wait kept room at this resource, and end it.
CREATE FUNCTION celery_semaphore.v1_end_kept_room(_nonce text, _name text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.resource AS r SET kept = celery_semaphore.v1_room_of_others(r.kept, _nonce)
    WHERE r.name = _name AND _nonce IN (SELECT room.nonce FROM unnest(r.kept) AS room);
    RETURN FOUND;
END $$;

-- A20: end what this wait keeps at these resources, which are due for a hand-on then.
CREATE FUNCTION celery_semaphore.v1_end_own_room(
    _nonce text, _ats celery_semaphore.v1_resource[], _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 1..cardinality(_ats) LOOP
        IF _ats[n].kept IS NOT NULL AND celery_semaphore.v1_end_kept_room(_nonce, _ats[n].name) THEN
            PERFORM celery_semaphore.v1_mark_in_use(_ats[n].name, _m.now);
        END IF;
    END LOOP;
END $$;

-- Return how long the wait's turn is expected to take at the claim that refuses it, if room of this other claim is to
-- be kept for so long: permits do not come much sooner here, and are held for at least half as long. Else null. Where
-- no permit was released yet, the mean of the other resource counts. No more waits are counted than decide this.
CREATE FUNCTION celery_semaphore.v1_turn_to_keep(
    _head celery_semaphore.waiter, _refusing int, _there celery_semaphore.v1_resource, _other int,
    _here celery_semaphore.v1_resource
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    mean_there float8 := coalesce(_there.mean, _here.mean, 1000000);
    mean_here float8 := coalesce(_here.mean, _there.mean, 1000000);
    limit_there float8 := coalesce(_there.operator, _there.declared);
    limit_here float8 := coalesce(_here.operator, _here.declared);
    most float8 := 2 * mean_here * limit_there;
    turn float8;
BEGIN
    IF _head.weights[_refusing] * mean_there * limit_here > 2 * _head.weights[_other] * mean_here * limit_there THEN
        RETURN NULL; -- permits come more slowly there
    END IF;
    turn := (_head.weights[_refusing] + celery_semaphore.v1_position(
        _there.name, celery_semaphore.v1_ticket_of(_head),
        CASE WHEN most < 10000 * mean_there THEN floor(most / mean_there)::bigint + 2 ELSE 10000 END, '{in_line}'
    )) * mean_there / limit_there;
    RETURN CASE WHEN turn <= 2 * mean_here THEN turn END;
END $$;

-- Keep the room of all claims that would admit the wait, where permits do not come much sooner than its turn at the
-- claim that refuses it (`_refusing`) for this reason; but not behind twenty waits that keep room there, for each call
-- goes through all of them. Return the resources where it kept room and keeps none now.
CREATE FUNCTION celery_semaphore.v1_keep_room(
    _head celery_semaphore.waiter, _refusing int, _reason text, _m celery_semaphore.v1_moment
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    ticket celery_semaphore.v1_ticket := celery_semaphore.v1_ticket_of(_head);
    refusing celery_semaphore.v1_resource := celery_semaphore.v1_read_for_wait(
        _head.resources[_refusing], _head.limits[_refusing], _m);
    at celery_semaphore.v1_resource;
    turn float8;
    left_by text[] := '{}';
BEGIN
    FOR n IN 1..cardinality(_head.resources) LOOP
        at := refusing;
        turn := NULL;
        IF n <> _refusing THEN
            at := celery_semaphore.v1_read_for_wait(_head.resources[n], _head.limits[n], _m);
            IF _reason = 'saturated' THEN
                turn := celery_semaphore.v1_turn_to_keep(_head, _refusing, refusing, n, at);
            END IF;
        END IF;
        IF turn IS NOT NULL AND celery_semaphore.v1_refusal(at, _head.weights[n], ticket, _m) IS NULL
            AND (SELECT count(*) FROM celery_semaphore.v1_room_before(at.kept, ticket)) < 20
        THEN
            PERFORM celery_semaphore.v1_write_kept_room(at.name, ROW(
                ticket.nonce, ticket.urgency, ticket.place, _head.weights[n],
                least(_m.now + 1000000 + 2 * floor(turn), celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up))
            )::celery_semaphore.kept_room);
        ELSIF at.kept IS NOT NULL AND celery_semaphore.v1_end_kept_room(ticket.nonce, at.name) THEN
            left_by := left_by || at.name;
        END IF;
    END LOOP;
    RETURN left_by;
END $$;

-- Write the room that a wait keeps, in place of what it kept here before. The resource is due when its time is over.
CREATE FUNCTION celery_semaphore.v1_write_kept_room(_name text, _room celery_semaphore.kept_room) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO celery_semaphore.resource AS r (name, reap_at, kept) VALUES (_name, _room.ends, ARRAY[_room])
    ON CONFLICT (name) DO UPDATE SET reap_at = least(r.reap_at, excluded.reap_at),
        kept = celery_semaphore.v1_room_of_others(r.kept, _room.nonce) || excluded.kept;
END $$;
