-- The messages of a task: while one of them runs, all are refused; once it ran, they are copies.

-- Return the record of the task's earlier messages. Do not call this for a first message, or trust a record under
-- another ticket: it belongs to an earlier task, since a sender may reuse a task id.
CREATE FUNCTION celery_semaphore.v1_message_record(_a celery_semaphore.v1_acquisition, _now bigint)
RETURNS celery_semaphore.message LANGUAGE plpgsql AS $$
DECLARE
    said celery_semaphore.message;
BEGIN
    SELECT * INTO said FROM celery_semaphore.message AS s
    WHERE s.resource = _a.resources[1] AND s.task = _a.task AND s.until + 0 > _now; -- not by the index on until
    RETURN said;
END $$;

-- Return a record for a message that comes again while it runs, or null: the first message of a task leaves none.
CREATE FUNCTION celery_semaphore.v1_unknown_run(_a celery_semaphore.v1_acquisition)
RETURNS celery_semaphore.message LANGUAGE plpgsql AS $$
DECLARE
    found_here celery_semaphore.message;
BEGIN
    SELECT p.resource, _a.task, _a.carried, _a.message, p.holder, false, 0 INTO found_here
    FROM celery_semaphore.permit AS p
    WHERE p.resource = _a.resources[1] AND p.holder IS NOT NULL AND NOT p.granted
    AND left(p.holder, -length(substring(p.holder FROM ':[^:]*$'))) = _a.task_id
    ORDER BY p.holder LIMIT 1;
    RETURN found_here;
END $$;

-- A9: note the run of this very message, so that the release of its permit tells that it ended (R5).
CREATE FUNCTION celery_semaphore.v1_note_run(
    _a celery_semaphore.v1_acquisition, _said celery_semaphore.message, _now bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    _a.holder := _said.holder;
    PERFORM celery_semaphore.v1_remember_message(_a, _said.ticket, _said.admitted, _now);
    UPDATE celery_semaphore.permit AS p SET again = p.holder
    WHERE p.resource = _a.resources[1] AND p.holder = _said.holder;
END $$;

-- Store the ticket, and which of the task's messages was admitted, if any.
CREATE FUNCTION celery_semaphore.v1_remember_message(
    _a celery_semaphore.v1_acquisition, _ticket text, _admitted text, _now bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _a.task = '' THEN
        RETURN;
    END IF;
    INSERT INTO celery_semaphore.message (resource, task, ticket, admitted, holder, ran, until)
    VALUES (_a.resources[1], _a.task, _ticket, _admitted, _a.holder, false, _now + _a.remember)
    ON CONFLICT (resource, task) DO UPDATE
    SET ticket = excluded.ticket, admitted = excluded.admitted, holder = excluded.holder, ran = false,
        until = excluded.until;
END $$;

CREATE FUNCTION celery_semaphore.v1_forget_message(_a celery_semaphore.v1_acquisition) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM celery_semaphore.message AS s WHERE s.resource = _a.resources[1] AND s.task = _a.task;
END $$;

-- R5: note that the task ran; it and all its other messages are copies from now on.
CREATE FUNCTION celery_semaphore.v1_mark_run(
    _resource text, _task text, _message text, _holder text, _now bigint, _remember bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.message AS s SET ran = true, until = _now + _remember
    WHERE s.resource = _resource AND s.task = _task AND s.until + 0 > _now
    AND s.holder = _holder AND s.admitted = _message;
END $$;
