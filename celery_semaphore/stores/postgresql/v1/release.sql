-- Release the permit for good, or prevent that the holder gets one later; then hand on. The holder may also be a
-- ticket: then the wait ends.
--
-- Most calls end here: their resources have no wait, or they name one whose permit goes to the first in line. All other
-- calls take v1_release_slow_path.
CREATE FUNCTION celery_semaphore.v1_release(
    _call celery_semaphore.v1_call,
    _holder text, _task text, _message text, _remember bigint, _resources text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    home text := _resources[1];
    now bigint;
    handed celery_semaphore.v1_handed := (NULL, false, '{}'::text[], '{}'::text[], '{}'::text[]);
    held_for bigint;
    done text;
BEGIN
    IF cardinality(_resources) = 1 AND _message IS NULL AND celery_semaphore.v1_enter_one(home, _call.lock_timeout) THEN
        now := celery_semaphore.v1_now(_call.clock);
        UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = now -- R3
        FROM celery_semaphore.epoch AS e
        WHERE e.one AND celery_semaphore.v1_is_current(e, _call, now)
        AND p.resource = home AND p.holder = _holder AND p.ends > now AND p.again IS DISTINCT FROM _holder
        AND (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = home LIMIT 1) IS NULL
        RETURNING e.id, greatest(0, now - p.since) INTO handed.epoch, held_for;
        IF FOUND THEN
            done := celery_semaphore.v1_update_mean(home, held_for, false);
        ELSE
            handed := celery_semaphore.v1_pass_on(home, _holder, now, _call);
        END IF;
        IF handed.epoch IS NOT NULL THEN
            done := celery_semaphore.v1_mark_released(home, _holder, now + _call.lease);
            IF random() < 0.01 THEN -- often enough without a reaper
                done := celery_semaphore.v1_delete_tombstones(now);
            END IF;
            RETURN handed;
        END IF;
    ELSIF cardinality(_resources) > 1 AND _message IS NULL AND NOT celery_semaphore.v1_have_waits(_resources) THEN
        handed.epoch := celery_semaphore.v1_free_several(_resources, _holder, _call);
        IF handed.epoch IS NOT NULL THEN
            RETURN handed;
        END IF;
    END IF;
    RETURN celery_semaphore.v1_release_slow_path(
        _call, _holder, _task, _message, _remember, _resources);
END $$;

-- Release several permits, or end several waits, of the same resources.
CREATE FUNCTION celery_semaphore.v1_release_each(
    _call celery_semaphore.v1_call, _holders text[], _resources text[]
) RETURNS SETOF celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY _holders LOOP
        RETURN NEXT celery_semaphore.v1_release(_call, one, '', NULL, 0, _resources);
    END LOOP;
END $$;

CREATE FUNCTION celery_semaphore.v1_have_waits(_resources text[]) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = ANY (_resources) LIMIT 1) IS NOT NULL
$$;

-- R3, R4: release a permit on several resources that have no wait, and return the epoch. If any condition is not met,
-- return null: then nothing was changed.
CREATE FUNCTION celery_semaphore.v1_free_several(
    _resources text[], _holder text, _call celery_semaphore.v1_call
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    its celery_semaphore.permit;
    current bigint;
    held int;
BEGIN
    PERFORM celery_semaphore.v1_enter_several(_resources, _call.lock_timeout);
    now := celery_semaphore.v1_now(_call.clock);
    SELECT min(e.id), count(*) INTO current, held
    FROM celery_semaphore.epoch AS e, celery_semaphore.permit AS p
    WHERE e.one AND celery_semaphore.v1_is_current(e, _call, now)
    AND p.resource = ANY (_resources) AND p.holder = _holder AND p.ends > now AND p.again IS DISTINCT FROM _holder;
    IF held < cardinality(_resources) OR celery_semaphore.v1_have_waits(_resources) THEN
        RETURN NULL;
    END IF;
    FOR its IN
        UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = now
        WHERE p.resource = ANY (_resources) AND p.holder = _holder
        RETURNING p.*
    LOOP
        PERFORM celery_semaphore.v1_update_mean(its.resource, greatest(0, now - its.since), false);
        PERFORM celery_semaphore.v1_mark_released(its.resource, _holder, now + _call.lease);
    END LOOP;
    IF random() < 0.01 THEN -- often enough without a reaper
        PERFORM celery_semaphore.v1_delete_tombstones(now);
    END IF;
    RETURN current;
END $$;

-- Add a permit to the mean of about the last fifty. With fewer, one long run in ten would delay all the waits that ask
-- soon after it, and permits would be idle until they ask again.
CREATE FUNCTION celery_semaphore.v1_update_mean(_name text, _held_for float8, _waits bool) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.resource AS r
    SET mean_samples = r.mean_samples + 1, latest = CASE WHEN _waits THEN _held_for ELSE r.latest END,
        mean = coalesce(r.mean, _held_for) + (_held_for - coalesce(r.mean, _held_for)) / least(50, r.mean_samples + 1)
    WHERE r.name = _name;
END $$;
