-- Decide on the admission to one resource, and read and write permits.

-- Return the reason why this resource refuses, the first of C1 to C5, or null. A wait that is heavier than the limit
-- blocks no other, nor does a wait in transit.
CREATE FUNCTION celery_semaphore.v1_refusal(
    _at celery_semaphore.v1_resource, _weight bigint, _before celery_semaphore.v1_ticket, _m celery_semaphore.v1_moment
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    in_force bigint := coalesce(_at.operator, _at.declared, 0);
BEGIN
    IF in_force = 0 THEN RETURN 'paused'; END IF; -- C1
    IF _weight > in_force THEN RETURN 'unsatisfiable'; END IF; -- C2
    IF _m.in_grace THEN RETURN 'recovering'; END IF; -- C3
    IF _at.occupied + _weight > in_force OR _at.kept IS NOT NULL
        AND _at.occupied + celery_semaphore.v1_kept_before(_at.kept, _before) + _weight > in_force
    THEN
        RETURN 'saturated'; -- C4
    END IF;
    IF NOT _at.waits THEN RETURN NULL; END IF;
    IF (celery_semaphore.v1_first_in_line(_at, _m, _before)).id IS NOT NULL THEN RETURN 'saturated'; END IF; -- C5
    RETURN NULL;
END $$;

-- Return the number of the claim that refuses, and its reason; or null. It is the first or, where that is saturated,
-- the slowest of those that are (A13): permits for its weight come most slowly. In another line the wait would only be
-- moved there when its turn comes. The claim on the resource `_admits` is left out.
CREATE FUNCTION celery_semaphore.v1_refusing_claim(
    _ats celery_semaphore.v1_resource[], _weights bigint[], _ticket celery_semaphore.v1_ticket, _admits text,
    _m celery_semaphore.v1_moment, OUT n int, OUT reason text
) LANGUAGE plpgsql AS $$
DECLARE
    why text;
    usual float8;
BEGIN
    FOR each IN 1..cardinality(_ats) LOOP
        CONTINUE WHEN _ats[each].name = _admits;
        why := celery_semaphore.v1_refusal(_ats[each], _weights[each], _ticket, _m);
        IF n IS NULL THEN
            n := CASE WHEN why IS NOT NULL THEN each END;
            reason := why;
            EXIT WHEN why <> 'saturated';
        ELSIF why = 'saturated' THEN
            usual := coalesce(usual, (SELECT max(at.mean) FROM unnest(_ats) AS at), 1000000);
            IF celery_semaphore.v1_comes_in(_ats[each], _weights[each], usual)
                > celery_semaphore.v1_comes_in(_ats[n], _weights[n], usual) THEN
                n := each;
            END IF;
        END IF;
    END LOOP;
END $$;

-- Return the time in which permits of this weight come; `_usual`: the mean where none is known, the longest one that is
-- known of the claims of the wait.
CREATE FUNCTION celery_semaphore.v1_comes_in(
    _at celery_semaphore.v1_resource, _weight bigint, _usual float8
) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT _weight * coalesce(_at.mean, _usual) / coalesce(_at.operator, _at.declared)
$$;

-- Return a token that is larger than every token in the rows of these resources, even if the clock stepped back. If the
-- rows were deleted, it is larger than earlier tokens as long as the clock does not step back.
CREATE FUNCTION celery_semaphore.v1_new_token(_ats celery_semaphore.v1_resource[], _now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    token bigint := _now;
    at celery_semaphore.v1_resource;
BEGIN
    FOREACH at IN ARRAY _ats LOOP
        token := greatest(token, at.token + 1);
    END LOOP;
    RETURN token;
END $$;

-- Write a permit or a grant into the row that the holder has, or a free one, or a new one.
CREATE FUNCTION celery_semaphore.v1_write_permit(
    _at celery_semaphore.v1_resource, _holder text, _weight bigint, _token bigint, _since bigint, _ends bigint,
    _epoch bigint, _granted celery_semaphore.v1_ticket DEFAULT NULL, _restored bool DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    its_row int := coalesce(_at.mine, _at.free);
BEGIN
    IF its_row IS NULL THEN
        INSERT INTO celery_semaphore.permit
            (resource, row_no, holder, granted, urgency, place, weight, token, last, since, ends, epoch, restored)
        VALUES (_at.name, _at.rows, _holder, _granted IS NOT NULL, _granted.urgency, _granted.place,
                _weight, _token, _token, _since, _ends, _epoch, _restored);
    ELSE
        UPDATE celery_semaphore.permit AS p
        SET holder = _holder, granted = _granted IS NOT NULL, urgency = _granted.urgency,
            place = _granted.place, weight = _weight, token = _token, since = _since, ends = _ends,
            last = greatest(p.last, _token), epoch = _epoch,
            restored = _restored
        WHERE p.resource = _at.name AND p.row_no = its_row;
    END IF;
END $$;

CREATE TYPE celery_semaphore.v1_held AS (part bool, whole bool, token bigint, since bigint, ends bigint);

-- A21: return whether a permit of an earlier epoch fits beside those that are known to be alive. A permit that was not
-- yet confirmed in this epoch may have ended in the moments that the store lost. The limit may have been lowered since
-- the permits were admitted: all that survived a loss was admitted once. `_own` are the names of the permit itself.
CREATE FUNCTION celery_semaphore.v1_has_room_to_restore(
    _resource text, _weight bigint, _limit bigint, _own text[], _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    living bigint;
    survived bigint;
BEGIN
    SELECT
        coalesce(sum(p.weight) FILTER (WHERE p.epoch = _m.epoch AND p.holder = ANY (_own) IS NOT TRUE), 0),
        coalesce(sum(p.weight) FILTER (WHERE NOT p.restored), 0)
    INTO living, survived
    FROM celery_semaphore.permit AS p WHERE p.resource = _resource AND p.holder IS NOT NULL;
    RETURN living + _weight <= greatest(_limit, survived);
END $$;

-- Return what a holder, or a grant, has on these resources: any part, and whether it is whole and alive. An overdue
-- lease is dead even before it is deleted. A grant of an earlier epoch does not count, since it may have been taken up
-- and released: its ticket must acquire again. `_limits` are those in force.
CREATE FUNCTION celery_semaphore.v1_find_permit(
    _name text, _resources text[], _limits bigint[], _weights bigint[], _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_held LANGUAGE sql AS $$
    SELECT
        count(*) > 0,
        count(*) FILTER (WHERE p.weight = asked.weight AND (
            NOT celery_semaphore.v1_is_over(p.ends, p.granted, _m) OR _m.in_grace
        ) AND CASE
            WHEN p.epoch = _m.epoch THEN true
            WHEN p.granted THEN false
            ELSE celery_semaphore.v1_has_room_to_restore(p.resource, p.weight, asked.in_force, ARRAY[_name], _m)
        END) = cardinality(_resources),
        max(p.token), max(p.since), min(p.ends)
    FROM unnest(_resources, _limits, _weights) AS asked (resource, in_force, weight)
    JOIN celery_semaphore.permit AS p ON p.resource = asked.resource AND p.holder = _name
$$;

-- Return the limits for permits that are restored; a pause ends none. Without a limit of an operator it is the higher
-- one of what is in force and what this holder declares: the first to declare after a loss may be a stray caller. One
-- that declares none was admitted by a limit that may be lost: there is no bound.
CREATE FUNCTION celery_semaphore.v1_limits_of_living(_ats celery_semaphore.v1_resource[], _limits bigint[])
RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(coalesce(
        CASE WHEN each.operator = 0 THEN celery_semaphore.v1_limit_set(each.name) ELSE each.operator END,
        CASE WHEN each.asked IS NULL THEN 9223372036854775807 ELSE greatest(each.declared, each.asked) END
    ) ORDER BY each.n) FROM (
        SELECT (_ats[n]).name, (_ats[n]).operator, (_ats[n]).declared, _limits[n] AS asked, n
        FROM generate_subscripts(_limits, 1) AS n
    ) AS each
$$;

CREATE FUNCTION celery_semaphore.v1_free_rows(_name text, _resources text[], _now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = _now
    WHERE p.resource = ANY (_resources) AND p.holder = _name;
END $$;

-- A6: end a permit that the store has on some of its claims only.
CREATE FUNCTION celery_semaphore.v1_end_partial_permit(
    _holder text, _resources text[], _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one text;
BEGIN
    PERFORM celery_semaphore.v1_free_rows(_holder, _resources, _m.now);
    FOREACH one IN ARRAY _resources LOOP
        PERFORM celery_semaphore.v1_mark_released(one, _holder, _m.now + _m.lease);
    END LOOP;
END $$;
