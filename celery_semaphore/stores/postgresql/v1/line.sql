-- The line of one resource. All calls run with enable_sort off, so ORDER BY decides which index is used, whatever
-- statistics the planner has.

-- Count the waits before this ticket, at most `_most`.
CREATE FUNCTION celery_semaphore.v1_position(
    _name text, _before celery_semaphore.v1_ticket, _most bigint DEFAULT 10000,
    _states text[] DEFAULT '{in_line,in_transit,set_aside}'
) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM unnest(_states) AS states (state), LATERAL (
        ( -- in two ranges: a scan by a row of three columns ends only where the first column differs
            SELECT FROM celery_semaphore.waiter AS w
            WHERE w.resource = _name AND w.state = states.state AND w.urgency < _before.urgency
            ORDER BY w.urgency, w.place, w.nonce LIMIT _most
        ) UNION ALL (
            SELECT FROM celery_semaphore.waiter AS w
            WHERE w.resource = _name AND w.state = states.state AND w.urgency = _before.urgency
            AND (w.place, w.nonce) < (_before.place, _before.nonce)
            ORDER BY w.place, w.nonce LIMIT _most
        ) LIMIT _most
    ) AS ahead);
END $$;

-- Delete a wait at one of these resources; return its row.
CREATE FUNCTION celery_semaphore.v1_delete_wait(_nonce text, _resources text[])
RETURNS celery_semaphore.waiter LANGUAGE plpgsql AS $$
DECLARE
    stood celery_semaphore.waiter;
BEGIN
    DELETE FROM celery_semaphore.waiter AS w
    WHERE w.id = celery_semaphore.v1_wait_id(_nonce) AND w.resource = ANY (_resources) RETURNING w.* INTO stood;
    RETURN stood;
END $$;

-- A11: the grant has ended on some of its claims, or with its epoch. Put the wait back into its line, and reap the
-- resources, since the next in line may get the permit. One whose message was sent is over.
CREATE FUNCTION celery_semaphore.v1_return_to_line(
    _nonce text, _resources text[], _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stood celery_semaphore.waiter;
    one text;
BEGIN
    SELECT * INTO stood FROM celery_semaphore.waiter AS w
    WHERE w.id = celery_semaphore.v1_wait_id(_nonce) AND w.resource = ANY (_resources) AND w.state = 'granted';
    IF stood.payload IS NULL AND stood.session = '' THEN
        DELETE FROM celery_semaphore.waiter AS w WHERE w.id = stood.id;
    ELSIF stood.payload IS NULL AND celery_semaphore.v1_is_out_of_reach(stood.session, stood.epoch, _m) THEN
        UPDATE celery_semaphore.waiter AS w
        SET state = 'in_transit', due = _m.now, ends = _m.now + greatest(_m.lease, w.keeps) WHERE w.id = stood.id;
    ELSE
        UPDATE celery_semaphore.waiter AS w SET outbox = false, state = 'in_line' WHERE w.id = stood.id;
    END IF;
    FOREACH one IN ARRAY _resources LOOP
        PERFORM celery_semaphore.v1_mark_in_use(one, _m.now);
    END LOOP;
END $$;

-- Return the first wait in line, before this ticket if one is given, that is reachable, fits the limit in force, and
-- has a session with room (H11). Heavier waits are set aside until the limit is raised (H2), or every call would have
-- to step over them (H4). Waits that are not reachable are put in transit (H5). If one call cannot step over all of
-- them, it returns the first of the rest, which blocks the line until the next reaper continues.
CREATE FUNCTION celery_semaphore.v1_first_in_line(
    _at celery_semaphore.v1_resource, _m celery_semaphore.v1_moment,
    _before celery_semaphore.v1_ticket DEFAULT ROW(256, 0, '')::celery_semaphore.v1_ticket
) RETURNS celery_semaphore.waiter LANGUAGE plpgsql AS $$
DECLARE
    in_force bigint := coalesce(_at.operator, _at.declared);
    first celery_semaphore.waiter;
    usable bigint;
BEGIN
    IF _at.too_heavy_above IS NOT NULL AND (in_force <= _at.too_heavy_above) IS NOT TRUE THEN
        UPDATE celery_semaphore.waiter AS w SET state = 'in_line' WHERE w.id = ANY (ARRAY(
            SELECT fits.id FROM celery_semaphore.waiter AS fits
            WHERE fits.resource = _at.name AND fits.state = 'set_aside'
                AND fits.weight <= coalesce(in_force, fits.own_limit)
            ORDER BY fits.urgency, fits.place, fits.nonce));
        -- While some are left, search again, even if no limit is known: the store may have lost it.
        PERFORM 1 FROM celery_semaphore.waiter AS w WHERE w.resource = _at.name AND w.state = 'set_aside' LIMIT 1;
        UPDATE celery_semaphore.resource AS r SET too_heavy_above = CASE WHEN FOUND THEN coalesce(in_force, 0) END
        WHERE r.name = _at.name;
    END IF;
    first := celery_semaphore.v1_head(_at.name);
    IF (celery_semaphore.v1_ticket_of(first) < _before) IS NOT TRUE THEN
        RETURN NULL;
    ELSIF celery_semaphore.v1_fits_limit(first.weight, first.own_limit, in_force)
        AND NOT celery_semaphore.v1_is_out_of_reach(first.session, first.epoch, _m)
        AND celery_semaphore.v1_has_room(first.session) THEN
        RETURN first;
    END IF;
    usable := celery_semaphore.v1_step_over(_at.name, in_force, _before, _m);
    IF usable IS NOT NULL THEN
        SELECT * INTO first FROM celery_semaphore.waiter AS w WHERE w.id = usable;
        RETURN first;
    END IF;
    first := celery_semaphore.v1_head(_at.name);
    IF (celery_semaphore.v1_ticket_of(first) < _before) IS NOT TRUE
        OR celery_semaphore.v1_fits_limit(first.weight, first.own_limit, in_force)
        AND NOT celery_semaphore.v1_is_out_of_reach(first.session, first.epoch, _m) THEN
        RETURN NULL; -- all that are left before the ticket were passed over
    END IF;
    PERFORM celery_semaphore.v1_mark_in_use(_at.name, 0);
    RETURN first;
END $$;

CREATE FUNCTION celery_semaphore.v1_head(_name text) RETURNS celery_semaphore.waiter LANGUAGE plpgsql AS $$
DECLARE
    head celery_semaphore.waiter;
BEGIN
    SELECT * INTO head FROM celery_semaphore.waiter AS w
    WHERE w.resource = _name AND w.state = 'in_line'
    ORDER BY w.urgency, w.place, w.nonce LIMIT 1;
    RETURN head;
END $$;

-- Return whether a wait fits the limit in force or, where none is known, the limit that it declared. 0 means paused.
CREATE FUNCTION celery_semaphore.v1_fits_limit(_weight bigint, _asked bigint, _in_force bigint) RETURNS bool
LANGUAGE sql IMMUTABLE AS $$ SELECT _in_force IS NOT DISTINCT FROM 0 OR _weight <= coalesce(_in_force, _asked, 0) $$;

-- Set aside or put in transit the waits before the first that fits and is reachable, and pass over those of sessions
-- without room (H11). Return the `id` of the first other one. It reads at most a thousand in one call, and passes over
-- at most 100, since other calls wait for this one: the next may be such a wait, too.
CREATE FUNCTION celery_semaphore.v1_step_over(
    _name text, _in_force bigint, _before celery_semaphore.v1_ticket, _m celery_semaphore.v1_moment
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    each record;
    out_of_reach bigint[] := '{}';
    shut_out bigint[] := '{}';
    full_up text[] := '{}'; -- sessions without room: a line has many waits of few sessions
    passed int := 0;
    lowest bigint;
    usable bigint;
BEGIN
    FOR each IN -- the loop reads in portions, no further than needed
        SELECT w.id, w.weight, w.own_limit, ROW(w.urgency, w.place, w.nonce)::celery_semaphore.v1_ticket AS ticket,
            w.session, w.epoch
        FROM celery_semaphore.waiter AS w WHERE w.resource = _name AND w.state = 'in_line'
        ORDER BY w.urgency, w.place, w.nonce LIMIT 1000
    LOOP
        EXIT WHEN each.ticket >= _before;
        IF each.session = ANY (full_up) AND passed < 100 THEN
            passed := passed + 1;
        ELSIF celery_semaphore.v1_is_out_of_reach(each.session, each.epoch, _m) THEN
            out_of_reach := out_of_reach || each.id;
        ELSIF NOT celery_semaphore.v1_fits_limit(each.weight, each.own_limit, _in_force) THEN
            shut_out := shut_out || each.id;
            lowest := least(lowest, coalesce(_in_force, each.own_limit, 0));
        ELSIF passed >= 100 OR celery_semaphore.v1_has_room(each.session) THEN
            usable := each.id;
            EXIT;
        ELSE
            full_up := full_up || each.session;
            passed := passed + 1;
        END IF;
    END LOOP;
    IF passed > 0 THEN -- a session may have room soon
        PERFORM celery_semaphore.v1_mark_in_use(_name, _m.now);
    END IF;
    UPDATE celery_semaphore.waiter AS w
    SET state = 'in_transit', due = _m.now, ends = _m.now + greatest(_m.lease, w.keeps)
    WHERE w.id = ANY (out_of_reach);
    UPDATE celery_semaphore.waiter AS w SET state = 'set_aside' WHERE w.id = ANY (shut_out);
    IF lowest IS NOT NULL THEN
        UPDATE celery_semaphore.resource AS r SET too_heavy_above = lowest WHERE r.name = _name;
    END IF;
    RETURN usable;
END $$;
