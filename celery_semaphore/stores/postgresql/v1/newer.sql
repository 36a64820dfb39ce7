-- What a worker of this format still does in tables of a newer one, for the tasks that it runs. Lines, grants and outboxes
-- may be written otherwise by now: newer workers look after those.

-- Move the end of a lease that this format wrote in this epoch, and write nothing else; answers whether the permit was
-- there. What was forgotten is not put back, nor confirmed in a new epoch: that would be a new row in an old format, and
-- whether it fits only newer workers can tell.
CREATE FUNCTION celery_semaphore.v1_renew_newer(
    _clock bigint, _lease bigint, _patience int, _holder text, _resources text[], _weights bigint[]
) RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint;
    whole bool;
    done text := set_config('lock_timeout', _patience::text, true);
BEGIN
    PERFORM celery_semaphore.v1_lock(_resources);
    now := celery_semaphore.v1_clock(_clock);
    SELECT count(*) = cardinality(_resources) INTO whole
    FROM unnest(_resources, _weights) AS asked (resource, weight)
    JOIN celery_semaphore.permit AS p
        ON p.resource = asked.resource AND p.weight = asked.weight AND p.holder = _holder AND p.ends > now
    JOIN celery_semaphore.epoch AS e ON e.id = p.epoch;
    IF whole THEN
        UPDATE celery_semaphore.permit AS p SET ends = now + _lease
        WHERE p.resource = ANY (_resources) AND p.holder = _holder;
    END IF;
    RETURN whole;
END $$;

-- Take out the permit that this format wrote, and mark its resources for a look: whoever looks hands on.
CREATE FUNCTION celery_semaphore.v1_release_newer(
    _clock bigint, _lease bigint, _patience int,
    _holder text, _task text, _message text, _remember bigint, _resources text[]
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint;
    home text;
    done text := set_config('lock_timeout', _patience::text, true);
BEGIN
    PERFORM celery_semaphore.v1_lock(_resources);
    now := celery_semaphore.v1_clock(_clock);
    FOR home IN
        UPDATE celery_semaphore.permit AS p SET holder = NULL, ends = now
        WHERE p.resource = ANY (_resources) AND p.holder = _holder AND NOT p.granted
        RETURNING p.resource
    LOOP
        PERFORM celery_semaphore.v1_bury(home, _holder, now + _lease);
        PERFORM celery_semaphore.v1_use(home, now);
    END LOOP;
    IF _message IS NOT NULL THEN
        PERFORM celery_semaphore.v1_has_run(_resources[1], _task, _message, _holder, now, _remember);
    END IF;
END $$;
