-- Renew and release permits in tables of a newer format, for the tasks that a worker of this format still runs. Lines,
-- grants and outboxes may have another layout by now: only newer workers write those.

-- Apply the settings of v1_enter, and check the durations. v1_enter itself reads tables that may have another layout.
CREATE FUNCTION celery_semaphore.v1_apply_settings_newer(_call celery_semaphore.v1_call) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    done text;
BEGIN
    done := set_config('synchronous_commit', 'off', true); -- or an unreachable standby would prolong these locks
    done := set_config('lock_timeout', _call.lock_timeout::text, true);
    PERFORM celery_semaphore.v1_check_lease(b.lease, b.take_up, _call) FROM celery_semaphore.epoch_before AS b; -- A16
END $$;

-- Extend leases that this format wrote in this epoch, and write nothing else; return the same as v1_renew. A lost
-- permit is not restored, nor confirmed in a new epoch: that would write a row in an old format, and only newer workers
-- can tell whether it fits.
CREATE FUNCTION celery_semaphore.v1_renew_newer(
    _call celery_semaphore.v1_call, _permits jsonb, _waits bool
) RETURNS text[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint;
    permit record;
    became text[];
    wanted text[] := celery_semaphore.v1_resources_of(_permits);
BEGIN
    PERFORM celery_semaphore.v1_apply_settings_newer(_call);
    IF _waits THEN
        PERFORM celery_semaphore.v1_lock(wanted);
    ELSE
        wanted := celery_semaphore.v1_lock_free(wanted);
    END IF;
    now := celery_semaphore.v1_now(_call.clock);
    FOR permit IN
        SELECT * FROM jsonb_to_recordset(_permits) AS p (holder text, resources text[], weights bigint[])
    LOOP
        became := became || CASE
            WHEN NOT permit.resources <@ wanted THEN 'busy'
            WHEN celery_semaphore.v1_renew_one_newer(permit.holder, permit.resources, permit.weights, now,
                _call.lease) THEN 'ok'
            ELSE 'lost'
        END;
    END LOOP;
    RETURN became;
END $$;

CREATE FUNCTION celery_semaphore.v1_renew_one_newer(
    _holder text, _resources text[], _weights bigint[], _now bigint, _lease bigint
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    whole bool;
BEGIN
    SELECT count(*) = cardinality(_resources) INTO whole
    FROM unnest(_resources, _weights) AS asked (resource, weight)
    JOIN celery_semaphore.permit AS p
        ON p.resource = asked.resource AND p.weight = asked.weight AND p.holder = _holder AND p.ends > _now
    JOIN celery_semaphore.epoch AS e ON e.id = p.epoch;
    IF whole THEN
        UPDATE celery_semaphore.permit AS p SET ends = _now + _lease
        WHERE p.resource = ANY (_resources) AND p.holder = _holder;
    END IF;
    RETURN whole;
END $$;

-- R1: release the permit that this format wrote, and mark its resources as overdue: a newer worker reaps them and hands
-- on.
CREATE FUNCTION celery_semaphore.v1_release_newer(
    _call celery_semaphore.v1_call, _holder text, _task text, _message text, _remember bigint, _resources text[]
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint;
    home text;
    mark text;
BEGIN
    PERFORM celery_semaphore.v1_apply_settings_newer(_call);
    PERFORM celery_semaphore.v1_lock(_resources);
    now := celery_semaphore.v1_now(_call.clock);
    FOR home, mark IN
        UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = now
        WHERE p.resource = ANY (_resources) AND p.holder = _holder
        RETURNING p.resource, p.again
    LOOP
        IF mark = _holder AND _task <> '' THEN
            _message := coalesce(_message, '');
        END IF;
        PERFORM celery_semaphore.v1_mark_released(home, _holder, now + _call.lease);
        PERFORM celery_semaphore.v1_mark_in_use(home, now);
    END LOOP;
    IF _message IS NOT NULL THEN
        PERFORM celery_semaphore.v1_mark_run(_resources[1], _task, _message, _holder, now, _remember);
    END IF;
END $$;
