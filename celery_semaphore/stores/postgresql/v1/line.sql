-- Who waits at one resource. With enable_sort off, as each call has it that gets here, ORDER BY says which index to
-- use, whatever the planner believes of them.

CREATE FUNCTION celery_semaphore.v1_position(_name text, _ticket text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    -- A place further behind than this is only told as "far".
    RETURN celery_semaphore.v1_ahead(_name, 'p', _ticket) + celery_semaphore.v1_ahead(_name, 'w', _ticket)
        + celery_semaphore.v1_ahead(_name, 'a', _ticket);
END $$;

CREATE FUNCTION celery_semaphore.v1_ahead(_name text, _line "char", _ticket text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM (
        SELECT w.ticket FROM celery_semaphore.waiter AS w
        WHERE w.resource = _name AND w.line = _line AND w.ticket < _ticket ORDER BY w.ticket LIMIT 10000
    ) AS ahead);
END $$;

-- Out of whatever line it stands in; answers how it stood there.
CREATE FUNCTION celery_semaphore.v1_forget(_ticket text, _ats celery_semaphore.v1_at[])
RETURNS celery_semaphore.waiter LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_at;
    found_here celery_semaphore.waiter;
    stood celery_semaphore.waiter;
BEGIN
    FOREACH at IN ARRAY _ats LOOP
        CONTINUE WHEN NOT at.waits;
        DELETE FROM celery_semaphore.waiter AS w
        WHERE w.id = celery_semaphore.v1_digest(at.name, _ticket) RETURNING w.* INTO found_here;
        IF FOUND THEN
            stood := found_here;
        END IF;
    END LOOP;
    RETURN stood;
END $$;

-- What was granted to it is for other claims than its task asks now: it waits again, and so does whoever is next.
CREATE FUNCTION celery_semaphore.v1_put_back(_ticket text, _resources text[], _now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY _resources LOOP
        UPDATE celery_semaphore.waiter AS w
        SET line = CASE WHEN w.payload IS NOT NULL OR w.kind = 'call' THEN 'p' ELSE 'w' END, outbox = false
        WHERE w.id = celery_semaphore.v1_digest(one, _ticket) AND w.line = 'g';
        PERFORM celery_semaphore.v1_use(one, _now);
    END LOOP;
END $$;

-- A ticket as it is known here: an operator may have raised it, see v1_promote, and granted to it may be what its task
-- comes for by another message.
CREATE FUNCTION celery_semaphore.v1_known_as(_ticket text, _ats celery_semaphore.v1_at[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_at;
    raised text := celery_semaphore.v1_raised(_ticket);
BEGIN
    FOREACH at IN ARRAY _ats LOOP
        PERFORM 1 FROM celery_semaphore.permit AS p WHERE p.resource = at.name AND p.holder = raised;
        IF FOUND THEN
            RETURN raised;
        END IF;
    END LOOP;
    RETURN coalesce(celery_semaphore.v1_made_by(substr(_ticket, 22), _ats), _ticket);
END $$;

-- Before all whose priority is not the highest, too; at its place.
CREATE FUNCTION celery_semaphore.v1_raised(_ticket text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '000' || substr(_ticket, 4)
$$;

-- Whether they are one ticket, which may have been raised in between.
CREATE FUNCTION celery_semaphore.v1_is_same(_ticket text, _other text) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(_ticket, 4) = substr(_other, 4)
$$;

CREATE FUNCTION celery_semaphore.v1_place(_ticket text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT substr(_ticket, 5, 16)::bigint $$;

-- The first parked one, before this ticket if one is given, that the limit in force could ever let in. The others
-- are put aside until a higher one is in force, or every call would have to step over them. Of very many the first is
-- answered although it does not fit: it blocks the line until whoever looks next goes on.
CREATE FUNCTION celery_semaphore.v1_first(_at celery_semaphore.v1_at, _before text)
RETURNS celery_semaphore.waiter LANGUAGE plpgsql AS $$
DECLARE
    in_force bigint := coalesce(_at.operator, _at.declared);
    first celery_semaphore.waiter;
BEGIN
    IF _at.low IS NOT NULL AND (in_force <= _at.low) IS NOT TRUE THEN
        UPDATE celery_semaphore.waiter AS w SET line = 'p' WHERE w.id = ANY (ARRAY(
            SELECT fits.id FROM celery_semaphore.waiter AS fits
            WHERE fits.resource = _at.name AND fits.line = 'a' AND fits.weight <= coalesce(in_force, fits.asked)
            ORDER BY fits.ticket));
        -- While some are left they are looked for again, though no limit was declared: the store may have forgotten it.
        PERFORM 1 FROM celery_semaphore.waiter AS w WHERE w.resource = _at.name AND w.line = 'a' LIMIT 1;
        UPDATE celery_semaphore.resource AS r SET low = CASE WHEN FOUND THEN coalesce(in_force, 0) END
        WHERE r.name = _at.name;
    END IF;
    FOR n IN 1..10 LOOP
        SELECT * INTO first FROM celery_semaphore.waiter AS w
        WHERE w.resource = _at.name AND w.line = 'p' AND w.ticket < coalesce(_before, '~')
        ORDER BY w.ticket LIMIT 1;
        IF NOT FOUND OR first.weight <= coalesce(in_force, first.asked) THEN
            RETURN first;
        END IF;
        PERFORM celery_semaphore.v1_put_aside(_at.name, first.ticket, coalesce(in_force, first.asked));
    END LOOP;
    PERFORM celery_semaphore.v1_use(_at.name, 0);
    RETURN first;
END $$;

CREATE FUNCTION celery_semaphore.v1_put_aside(_name text, _from text, _limit bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.waiter AS w SET line = 'a' WHERE w.id = ANY (ARRAY(
        SELECT shut_out.id FROM celery_semaphore.waiter AS shut_out
        WHERE shut_out.resource = _name AND shut_out.line = 'p' AND shut_out.ticket >= _from
        AND shut_out.weight > _limit
        ORDER BY shut_out.ticket LIMIT 1000));
    UPDATE celery_semaphore.resource AS r SET low = _limit WHERE r.name = _name;
END $$;

-- The first that comes back by itself, before this ticket, and can be expected now: it is due soon, or was just now.
CREATE FUNCTION celery_semaphore.v1_expected(
    _at celery_semaphore.v1_at, _before text, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.waiter LANGUAGE plpgsql AS $$
DECLARE
    late bigint := celery_semaphore.v1_late(_at, _m);
    early bigint := greatest(coalesce(round(_at.mean), 1000000), 100000);
    first celery_semaphore.waiter;
BEGIN
    WITH coming AS MATERIALIZED (
        SELECT w.* FROM celery_semaphore.waiter AS w
        WHERE w.resource = _at.name AND w.line = 'w'
        AND w.ends > _m.now - late + _m.lease AND w.ends <= _m.now + early + _m.lease
        ORDER BY w.ends LIMIT 1000
    )
    SELECT * INTO first FROM coming
    WHERE coming.ticket < _before AND coming.weight <= coalesce(_at.operator, _at.declared, coming.asked)
    ORDER BY coming.ticket LIMIT 1;
    RETURN first;
END $$;

-- How long after it was due a permit is kept for one that comes back by itself.
CREATE FUNCTION celery_semaphore.v1_late(
    _at celery_semaphore.v1_at, _m celery_semaphore.v1_moment
) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(greatest(coalesce(round(_at.mean)::bigint, 1000000), 1000000), _m.take_up)
$$;
