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

-- Return how long the wait's turn is expected to take at the resource that refuses it. Waits before it are counted no
-- further than until that is longer than `_at_most`.
CREATE FUNCTION celery_semaphore.v1_expected_turn(
    _at celery_semaphore.v1_resource, _ticket celery_semaphore.v1_ticket, _weight bigint, _at_most float8
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    mean float8 := coalesce(_at.mean, 1000000);
    in_force float8 := coalesce(_at.operator, _at.declared);
    most bigint := CASE WHEN _at_most * in_force < 10000 * mean THEN floor(_at_most * in_force / mean) + 2 END;
BEGIN
    RETURN (celery_semaphore.v1_position(_at.name, _ticket, coalesce(most, 10000)) + _weight) * mean / in_force;
END $$;

-- Keep the room of all claims that would admit the wait, where permits are held for no shorter than its turn takes at
-- the claim that refuses it (`_refusing`) for this reason; but not behind a hundred waits that keep room there, for
-- each call goes through all of them. Return the resources where it kept room and keeps none now.
CREATE FUNCTION celery_semaphore.v1_keep_room(
    _head celery_semaphore.waiter, _refusing int, _reason text, _m celery_semaphore.v1_moment
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    ticket celery_semaphore.v1_ticket := celery_semaphore.v1_ticket_of(_head);
    refusing celery_semaphore.v1_resource := celery_semaphore.v1_read_for_wait(
        _head.resources[_refusing], _head.limits[_refusing], _m);
    at celery_semaphore.v1_resource;
    mean float8;
    turn float8;
    left_by text[] := '{}';
BEGIN
    FOR n IN 1..cardinality(_head.resources) LOOP
        at := refusing;
        IF n <> _refusing THEN
            at := celery_semaphore.v1_read_for_wait(_head.resources[n], _head.limits[n], _m);
        END IF;
        mean := coalesce(at.mean, 1000000);
        turn := CASE WHEN n <> _refusing AND _reason = 'saturated'
            THEN celery_semaphore.v1_expected_turn(refusing, ticket, _head.weights[_refusing], mean) END;
        IF turn <= mean AND celery_semaphore.v1_refusal(at, _head.weights[n], ticket, _m) IS NULL
            AND (SELECT count(*) FROM celery_semaphore.v1_room_before(at.kept, ticket)) < 100
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
