-- A task's messages: while one of them runs the others are refused, and once it ran they are copies.

-- What is known of an earlier message. A first message has none: what is there is of an earlier task, for a sender
-- may use a task id again. So is what is known under another ticket.
CREATE FUNCTION celery_semaphore.v1_said(_a celery_semaphore.v1_acquisition, _now bigint)
RETURNS celery_semaphore.message LANGUAGE plpgsql AS $$
DECLARE
    said celery_semaphore.message;
BEGIN
    SELECT * INTO said FROM celery_semaphore.message AS s
    WHERE s.resource = _a.resources[1] AND s.task = _a.task AND s.until + 0 > _now; -- not by the index on until
    RETURN said;
END $$;

-- Its ticket, and which of the task's messages was admitted, if any.
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

CREATE FUNCTION celery_semaphore.v1_has_run(
    _resource text, _task text, _message text, _holder text, _now bigint, _remember bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.message AS s SET ran = true, until = _now + _remember
    WHERE s.resource = _resource AND s.task = _task AND s.until + 0 > _now
    AND s.holder = _holder AND s.admitted = _message;
END $$;
