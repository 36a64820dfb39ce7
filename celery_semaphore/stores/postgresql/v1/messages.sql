-- The messages of a task: while one of them runs, the others are refused; once it ran, they are copies.

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

-- R5: note that the task ran; its other messages are copies from now on.
CREATE FUNCTION celery_semaphore.v1_mark_run(
    _resource text, _task text, _message text, _holder text, _now bigint, _remember bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.message AS s SET ran = true, until = _now + _remember
    WHERE s.resource = _resource AND s.task = _task AND s.until + 0 > _now
    AND s.holder = _holder AND s.admitted = _message;
END $$;
