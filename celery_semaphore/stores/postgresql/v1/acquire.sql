-- Admit the holder on all resources, or refuse and remember its place.
--
-- Most calls end here: one resource, and somebody new where nobody waits and there is room, or who takes up what was
-- granted to its wait (A10). v1_acquire_else is for all others. Each looks once, at everything, for each statement costs
-- as much as what it does.
CREATE FUNCTION celery_semaphore.v1_acquire(
    _clock bigint, _lease bigint, _take_up bigint, _known bigint, _patience int,
    _holder text, _ticket text, _kind text, _priority int, _shortest bigint, _longest bigint, _jitter float8,
    _timeout bigint, _session text, _keeps bigint, _claims text, _task text, _message text, _remember bigint,
    _resources text[], _limits bigint[], _weights bigint[]
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    answer celery_semaphore.v1_answer;
    home text := _resources[1];
    its_nonce text;
    now bigint;
    its_slot int;
BEGIN
    IF cardinality(_resources) = 1 AND _ticket = '' AND _message IS NULL
        AND celery_semaphore.v1_enter_one(home, _patience)
    THEN
        now := celery_semaphore.v1_clock(_clock);
        SELECT e.id, greatest(now, held.last + 1), now, now + _lease, held.free
        INTO answer.epoch, answer.token, answer.since, answer.ends, its_slot
        FROM celery_semaphore.epoch AS e, (
            SELECT
                sum(p.weight) FILTER (WHERE p.holder IS NOT NULL) AS occupied,
                max(p.last) AS last,
                min(p.slot) FILTER (WHERE p.holder IS NULL) AS free,
                bool_or(
                    p.holder = _holder OR p.granted AND p.holder = celery_semaphore.v1_grant_of(_holder)
                ) AS mine
            FROM celery_semaphore.permit AS p WHERE p.resource = home
        ) AS held
        WHERE e.one AND celery_semaphore.v1_is_calm(e, _known, now)
        AND held.free IS NOT NULL AND held.mine IS NOT TRUE
        AND coalesce(held.occupied, 0) + _weights[1] <= coalesce((
            SELECT l.value FROM celery_semaphore.set_limit AS l
            WHERE l.name IN (home, split_part(home, '/', 1)) ORDER BY l.name DESC LIMIT 1
        ), _limits[1])
        AND ( -- nothing new to be declared
            SELECT true FROM celery_semaphore.resource AS r
            WHERE r.name = home AND r.declared = _limits[1]
            AND r.look + 0 <= now + _lease -- not by the index on look
        )
        AND (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = home LIMIT 1) IS NULL
        AND (
            SELECT true FROM celery_semaphore.released AS d
            WHERE d.holder = celery_semaphore.v1_digest(home, _holder) AND d.until + 0 > now -- not by the index on until
        ) IS NULL
        AND (SELECT true FROM celery_semaphore.message AS s WHERE s.resource = home AND s.task = _task) IS NULL;
        IF FOUND THEN
            UPDATE celery_semaphore.permit AS p
            SET holder = _holder, granted = false, weight = _weights[1],
                token = answer.token, last = answer.token, since = now, ends = answer.ends,
                epoch = answer.epoch, restored = false
            WHERE p.resource = home AND p.slot = its_slot;
            RETURN answer;
        END IF;
    ELSIF cardinality(_resources) = 1 AND _message IS NULL AND _kind <> 'call'
        AND celery_semaphore.v1_enter_one(home, _patience)
    THEN
        now := celery_semaphore.v1_clock(_clock);
        its_nonce := (celery_semaphore.v1_parsed(_ticket)).nonce;
        UPDATE celery_semaphore.permit AS p
        SET holder = _holder, granted = false, urgency = NULL, place = NULL, since = now, ends = now + _lease,
            restored = false
        FROM celery_semaphore.epoch AS e
        WHERE e.one AND celery_semaphore.v1_is_calm(e, _known, now)
        AND p.resource = home AND p.holder = celery_semaphore.v1_grant_of(its_nonce)
        AND p.weight = _weights[1] AND p.epoch = e.id
        AND ( -- nothing new to be declared
            SELECT true FROM celery_semaphore.resource AS r
            WHERE r.name = home AND r.declared = _limits[1]
            AND r.look + 0 <= now + _lease -- not by the index on look
        )
        AND ( -- it holds nothing yet, and nothing here must end first
            SELECT bool_and(held.holder <> _holder AND held.ends > now
                AND held.ends <= celery_semaphore.v1_furthest(now, _lease, _take_up))
            FROM celery_semaphore.permit AS held WHERE held.resource = home AND held.holder IS NOT NULL
        )
        AND (celery_semaphore.v1_first_end(home) <= now) IS NOT TRUE
        AND (
            SELECT true FROM celery_semaphore.released AS d
            WHERE d.holder = celery_semaphore.v1_digest(home, _holder) AND d.until + 0 > now -- not by the index on until
        ) IS NULL
        RETURNING e.id, p.token, p.since, p.ends INTO answer.epoch, answer.token, answer.since, answer.ends;
        IF FOUND THEN
            DELETE FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_digest(home, its_nonce);
            DELETE FROM celery_semaphore.message AS s WHERE s.resource = home AND s.task = _task;
            RETURN answer;
        END IF;
    END IF;
    RETURN celery_semaphore.v1_acquire_else(
        _clock, _lease, _take_up, _known, _patience,
        _holder, _ticket, _kind, _priority, _shortest, _longest, _jitter,
        _timeout, _session, _keeps, _claims, _task, _message, _remember,
        _resources, _limits, _weights);
END $$;
