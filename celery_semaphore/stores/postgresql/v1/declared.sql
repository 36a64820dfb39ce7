-- Keep the smallest limit that was declared lately: row A4 of docs/maintain/architecture.md. A window is one lease
-- long. `_now` of the functions that read is the time by which windows end (`permits_ended_by`): it stands still while
-- holders are awaited after a silence (A17).

-- Return the smallest of the newest window and the one before it. Once both are over, the last one stays until another
-- is declared.
CREATE FUNCTION celery_semaphore.v1_smallest_lately(_at celery_semaphore.resource, _now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _now < _at.declared_until THEN least(_at.declared, _at.declared_before) ELSE _at.declared END
$$;

-- A18: return the row of what is declared for all keys of the semaphore of this key, or null. Once both windows are
-- over, it bounds no key any more.
CREATE FUNCTION celery_semaphore.v1_for_all_keys(_name text, _now bigint) RETURNS celery_semaphore.resource
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_one celery_semaphore.resource;
BEGIN
    IF strpos(_name, '/') > 0 THEN
        SELECT r.* INTO found_one FROM celery_semaphore.resource AS r, celery_semaphore.epoch_before AS b
        WHERE r.name = split_part(_name, '/', 1) || '//' AND b.one AND _now < r.declared_until + b.lease;
    END IF;
    RETURN found_one;
END $$;

-- Return the row whose limit is in force: of this resource (`_at`, or null), or what is declared for all keys. Where
-- that is current, a key's own one counts until its two windows are over, for perhaps none declares it again.
CREATE FUNCTION celery_semaphore.v1_in_force(
    _name text, _at celery_semaphore.resource, _now bigint
) RETURNS celery_semaphore.resource LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_all celery_semaphore.resource := celery_semaphore.v1_for_all_keys(_name, _now);
BEGIN
    IF of_all.name IS NULL OR celery_semaphore.v1_smallest_lately(_at, _now)
        <= celery_semaphore.v1_smallest_lately(of_all, _now)
        AND _now < _at.declared_until + (SELECT b.lease FROM celery_semaphore.epoch_before AS b WHERE b.one)
    THEN
        RETURN _at;
    END IF;
    RETURN of_all;
END $$;

-- Return the limit in force of all that were declared, at this resource (`_at` is its row, or null) and for all keys.
CREATE FUNCTION celery_semaphore.v1_declared(
    _name text, _at celery_semaphore.resource, _now bigint
) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN strpos(_name, '/') = 0 THEN celery_semaphore.v1_smallest_lately(_at, _now)
        ELSE celery_semaphore.v1_smallest_lately(celery_semaphore.v1_in_force(_name, _at, _now), _now) END
$$;

-- Return when the smallest one rises, since a lower one lapses; or null.
CREATE FUNCTION celery_semaphore.v1_lapses(_at celery_semaphore.resource, _now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _at.declared_before < _at.declared AND _now < _at.declared_until THEN _at.declared_until END
$$;

-- Return when the limit in force rises by itself, or null: a pause ends (O3), or a lower limit lapses.
CREATE FUNCTION celery_semaphore.v1_rises_at(
    _name text, _m celery_semaphore.v1_moment
) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_all celery_semaphore.resource := celery_semaphore.v1_for_all_keys(_name, _m.permits_ended_by);
    at celery_semaphore.resource;
    lapses bigint;
BEGIN
    SELECT r.* INTO at FROM celery_semaphore.resource AS r WHERE r.name = _name;
    at := celery_semaphore.v1_in_force(_name, at, _m.permits_ended_by);
    lapses := coalesce(
        celery_semaphore.v1_lapses(at, _m.permits_ended_by),
        CASE WHEN of_all.name IS NOT NULL THEN at.declared_until + _m.lease END); -- A18
    RETURN least(
        celery_semaphore.v1_paused_until(_name, _m.now),
        CASE WHEN lapses IS NOT NULL THEN greatest(lapses, _m.spared_until) END);
END $$;

-- Return the process that declared the limit in force.
CREATE FUNCTION celery_semaphore.v1_declared_by(
    _name text, _at celery_semaphore.resource, _now bigint
) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    said celery_semaphore.resource := celery_semaphore.v1_in_force(_name, _at, _now);
BEGIN
    RETURN CASE
        WHEN celery_semaphore.v1_lapses(said, _now) IS NULL THEN said.declared_by ELSE said.declared_before_by
    END;
END $$;

-- Return whether this declaration would change nothing: it comes in the present window, which has a limit that is no
-- higher. An attempt that declares none (null) changes nothing either; for 0 the long way refuses.
CREATE FUNCTION celery_semaphore.v1_is_declared(
    _at celery_semaphore.resource, _limit bigint, _now bigint, _lease bigint
) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
    SELECT _limit IS NULL
        OR _at.declared <= _limit AND _at.declared_until > _now
        AND _at.declared_until <= _now - _now % _lease + _lease
$$;

-- A4: note the limit that an acquire or a worker declares; 0 concerns this attempt only. In any case the resource is in
-- use.
CREATE FUNCTION celery_semaphore.v1_declare_limit(
    _at celery_semaphore.v1_resource, _limit bigint, _by text, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_resource LANGUAGE plpgsql AS $$
DECLARE
    known celery_semaphore.resource;
    before bigint := coalesce(_at.declared, 0);
    ends bigint := _m.now - _m.now % _m.lease + _m.lease;
    changes bool;
    soon bigint;
BEGIN
    SELECT * INTO known FROM celery_semaphore.resource AS r WHERE r.name = _at.name;
    changes := _limit > 0 AND celery_semaphore.v1_is_declared(known, _limit, _m.now, _m.lease) IS NOT TRUE;
    IF changes THEN
        IF _m.permits_ended_by < _m.now AND known.declared_until <= _m.now AND _m.permits_ended_by < known.declared_until + _m.lease
        THEN -- A17: what was in force when a silence began is of the present window, for no call came since
            IF celery_semaphore.v1_lapses(known, _m.permits_ended_by) IS NOT NULL THEN
                known.declared := known.declared_before;
                known.declared_by := known.declared_before_by;
            END IF;
            known.declared_before := NULL;
            known.declared_until := ends;
        END IF;
        IF known.declared IS NULL OR known.declared_until <= ends - 2 * _m.lease THEN
            known.declared := _limit;
            known.declared_by := _by;
            known.declared_before := NULL;
        ELSIF known.declared_until <= _m.now THEN -- of the window before
            known.declared_before := known.declared;
            known.declared_before_by := known.declared_by;
            known.declared := _limit;
            known.declared_by := _by;
        ELSE -- the present one, also if it seems to end later: the clock stepped back, or the lease became shorter
            known.declared_by := CASE WHEN _limit < known.declared THEN _by ELSE known.declared_by END;
            known.declared := least(_limit, known.declared);
            ends := least(ends, known.declared_until);
        END IF;
        known.declared_until := ends;
        _at.declared := celery_semaphore.v1_declared(_at.name, known, _m.permits_ended_by);
    END IF;
    -- When the limit in force rises, there may be room for waits in line.
    soon := least(_m.now + _m.lease, celery_semaphore.v1_lapses(known, _m.permits_ended_by),
        CASE WHEN _at.waits AND _at.declared > before THEN _m.now END);
    IF changes OR (_at.reap_at <= soon) IS NOT TRUE THEN
        INSERT INTO celery_semaphore.resource AS r
            (name, declared, declared_by, declared_before, declared_before_by, declared_until, reap_at)
        VALUES (_at.name, known.declared, known.declared_by, known.declared_before, known.declared_before_by,
            known.declared_until, soon)
        ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, declared_by = excluded.declared_by,
            declared_before = excluded.declared_before, declared_before_by = excluded.declared_before_by,
            declared_until = excluded.declared_until, reap_at = least(r.reap_at, excluded.reap_at);
    END IF;
    RETURN _at;
END $$;

-- Note the limits that a worker declares, in its name. Only resources where that changes something are locked; if this
-- call must not wait (`_waits`), those that another call has locked are `busy`: else that one would stop all others.
-- Return of each resource, but for those where an operator's limit is in force: [name, limit in force, its process].
CREATE FUNCTION celery_semaphore.v1_declare(
    _call celery_semaphore.v1_call, _names text[], _limits bigint[], _by text, _waits bool,
    OUT epoch bigint, OUT declared json, OUT busy text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    now bigint := celery_semaphore.v1_now(_call.clock);
    changed text[] := ARRAY(
        SELECT asked.name FROM unnest(_names, _limits) AS asked (name, value)
        LEFT JOIN celery_semaphore.resource AS r ON r.name = asked.name
        WHERE celery_semaphore.v1_is_declared(r, asked.value, now, _call.lease) IS NOT TRUE);
    m celery_semaphore.v1_moment;
    home text;
BEGIN
    busy := '{}';
    IF NOT _waits THEN
        busy := changed;
        changed := celery_semaphore.v1_lock_free(changed);
        busy := ARRAY(SELECT each.name FROM unnest(busy) AS each (name) WHERE each.name <> ALL (changed));
    END IF;
    m := celery_semaphore.v1_enter(CASE WHEN _waits THEN changed ELSE '{}' END, _call);
    epoch := m.epoch;
    FOREACH home IN ARRAY changed LOOP
        PERFORM celery_semaphore.v1_declare_limit(
            celery_semaphore.v1_read(home, NULL, m), _limits[array_position(_names, home)], _by, m);
    END LOOP;
    SELECT coalesce(json_agg(json_build_array(
        r.name, celery_semaphore.v1_declared(r.name, r, m.permits_ended_by),
        celery_semaphore.v1_declared_by(r.name, r, m.permits_ended_by))), '[]')
    INTO declared
    FROM celery_semaphore.resource AS r
    WHERE r.name = ANY (_names) AND r.declared > 0 AND celery_semaphore.v1_limit_set(r.name) IS NULL;
END $$;
