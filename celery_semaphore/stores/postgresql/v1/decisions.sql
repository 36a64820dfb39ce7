-- Keep what operators decided: rows O1 to O4 of docs/maintain/architecture.md.

-- The name of a pause comes after those of all limits: no name of a resource has this character first.
CREATE FUNCTION celery_semaphore.v1_pause_name(_name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT '~' || _name $$;

-- Return the names of all decisions that concern a resource. Of those that last the one with the last name is in force:
-- a pause (O1), else the limit that was set for the resource, else the one for its semaphore.
CREATE FUNCTION celery_semaphore.v1_decision_names(_name text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY[
        _name, split_part(_name, '/', 1),
        celery_semaphore.v1_pause_name(_name), celery_semaphore.v1_pause_name(split_part(_name, '/', 1))
    ]
$$;

-- Return the limit that an operator set, which is in force without a pause.
CREATE FUNCTION celery_semaphore.v1_limit_set(_name text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT d.value FROM celery_semaphore.decision AS d
        WHERE d.name IN (_name, split_part(_name, '/', 1)) ORDER BY d.name DESC LIMIT 1);
END $$;

-- Return when the pause ends that lasts now: of the resource's and its semaphore's the later end counts.
CREATE FUNCTION celery_semaphore.v1_paused_until(_name text, _now bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT max(d.until) FROM celery_semaphore.decision AS d
        WHERE d.name IN (
            celery_semaphore.v1_pause_name(_name), celery_semaphore.v1_pause_name(split_part(_name, '/', 1))
        ) AND d.until > _now);
END $$;

-- Return the resources that a decision concerns: the one of this name, and the keys of the semaphore of this name.
CREATE FUNCTION celery_semaphore.v1_concerned(_name text) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY( -- in no order: without a sort that would be a scan of the whole index
        SELECT r.name FROM celery_semaphore.resource AS r WHERE r.name = _name
        UNION ALL
        SELECT r.name FROM celery_semaphore.resource AS r
        WHERE r.name >= _name || '/' AND r.name < _name || '0'); -- "0" comes after "/"
END $$;

-- Set a limit, or clear it if `_value` is null; return the resources that it concerns.
CREATE FUNCTION celery_semaphore.v1_set_limit(
    _call celery_semaphore.v1_call, _name text, _value bigint, _endless bigint
) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    now bigint := celery_semaphore.v1_now(_call.clock);
BEGIN
    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;
    IF _value IS NULL THEN
        DELETE FROM celery_semaphore.decision AS d WHERE d.name = _name;
    ELSE
        INSERT INTO celery_semaphore.decision AS d (name, value, since, until) VALUES (_name, _value, now, _endless)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value, since = excluded.since;
    END IF;
    PERFORM celery_semaphore.v1_forget_pauses(now);
    RETURN celery_semaphore.v1_concerned(_name);
END $$;

-- Pause; `_lasts`: null until it is resumed, which is `_endless`. O2: of two pauses of one name the later end counts.
CREATE FUNCTION celery_semaphore.v1_pause(
    _call celery_semaphore.v1_call, _name text, _lasts bigint, _endless bigint, OUT changed bool, OUT concerned text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    now bigint := celery_semaphore.v1_now(_call.clock);
BEGIN
    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;
    INSERT INTO celery_semaphore.decision AS d (name, value, since, until)
    VALUES (celery_semaphore.v1_pause_name(_name), 0, now, coalesce(now + _lasts, _endless))
    ON CONFLICT (name) DO UPDATE
    SET until = excluded.until, since = CASE WHEN d.until > now THEN d.since ELSE excluded.since END
    WHERE d.until < excluded.until;
    changed := FOUND;
    PERFORM celery_semaphore.v1_forget_pauses(now);
    concerned := celery_semaphore.v1_concerned(_name);
END $$;

-- End the pause of this name; return the resources that it concerns.
CREATE FUNCTION celery_semaphore.v1_resume(_call celery_semaphore.v1_call, _name text) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;
    DELETE FROM celery_semaphore.decision AS d WHERE d.name = celery_semaphore.v1_pause_name(_name);
    PERFORM celery_semaphore.v1_forget_pauses(celery_semaphore.v1_now(_call.clock));
    RETURN celery_semaphore.v1_concerned(_name);
END $$;

-- O4: delete the pauses that have ended. It skips rows that another call has locked, which may wait for this call.
CREATE FUNCTION celery_semaphore.v1_forget_pauses(_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM celery_semaphore.decision AS d WHERE d.name = ANY (ARRAY(
        SELECT ended.name FROM celery_semaphore.decision AS ended
        WHERE ended.until <= _now FOR UPDATE SKIP LOCKED));
END $$;

-- Return for each name the time now, the limit, when it was set, the end of the pause, and when it began.
CREATE FUNCTION celery_semaphore.v1_decisions(_call celery_semaphore.v1_call) RETURNS TABLE (
    name text, now bigint, value bigint, limited_at bigint, paused_until bigint, paused_at bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;
    RETURN QUERY
    SELECT of.name, celery_semaphore.v1_now(_call.clock), d.value, d.since, p.until, p.since
    FROM (SELECT DISTINCT ltrim(each.name, '~') FROM celery_semaphore.decision AS each) AS of (name)
    LEFT JOIN celery_semaphore.decision AS d ON d.name = of.name
    LEFT JOIN celery_semaphore.decision AS p ON p.name = celery_semaphore.v1_pause_name(of.name);
END $$;
