-- H8: know which lines stand still for a wait in another line, and try them once it has left.

-- H8: try the lines of these resources before this call ends, if it hands on. The list is a setting of the transaction,
-- for many functions add to it. No name of a resource has a line feed.
CREATE FUNCTION celery_semaphore.v1_wake(_names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('semaphore.woken', array_to_string(celery_semaphore.v1_woken() || _names, E'\n'), true);
END $$;

CREATE FUNCTION celery_semaphore.v1_woken() RETURNS text[] LANGUAGE sql VOLATILE AS $$
    SELECT string_to_array(coalesce(current_setting('semaphore.woken', true), ''), E'\n')
$$;

-- Return whether to try this line, and try it once.
CREATE FUNCTION celery_semaphore.v1_take_woken(_name text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    woken text[] := celery_semaphore.v1_woken();
BEGIN
    IF array_position(woken, _name) IS NULL THEN
        RETURN false;
    END IF;
    PERFORM set_config('semaphore.woken', array_to_string(array_remove(woken, _name), E'\n'), true);
    RETURN true;
END $$;

-- H8: try the lines of the other resources of a wait that left this line: it stood for waits there.
CREATE FUNCTION celery_semaphore.v1_wake_others(_home text, _resources text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(_resources) > 1 THEN
        PERFORM celery_semaphore.v1_wake(array_remove(_resources, _home));
        PERFORM celery_semaphore.v1_mark_due(array_remove(_resources, _home));
    END IF;
END $$;

-- Let a reaper look at resources whose locks this call may not have. A row that another call has locked is skipped, or
-- both might wait for each other; that call is at this resource right now.
CREATE FUNCTION celery_semaphore.v1_mark_due(_names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.resource AS r SET reap_at = 0 WHERE r.ctid = ANY (ARRAY(
        SELECT other.ctid FROM celery_semaphore.resource AS other
        WHERE other.name = ANY (_names) AND other.reap_at > 0 FOR UPDATE SKIP LOCKED));
END $$;

-- Note what a wait claims that steps into this line: while each one there claims the same resources, several of them,
-- `line_claims` has their names. Call it before the wait stands there.
CREATE FUNCTION celery_semaphore.v1_step_in(_name text, _resources text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    known text[] := (SELECT r.line_claims FROM celery_semaphore.resource AS r WHERE r.name = _name);
    claims text[];
BEGIN
    IF cardinality(_resources) > 1 THEN
        claims := ARRAY(SELECT one.name FROM unnest(_resources) AS one (name) ORDER BY one.name COLLATE "C");
    END IF;
    IF claims IS NOT DISTINCT FROM known THEN
        RETURN;
    ELSIF claims IS NOT NULL THEN
        PERFORM 1 FROM celery_semaphore.waiter AS w WHERE w.resource = _name AND w.state = 'in_line'
        ORDER BY w.urgency, w.place, w.nonce LIMIT 1;
        claims := CASE WHEN NOT FOUND THEN claims END;
    END IF;
    UPDATE celery_semaphore.resource AS r SET line_claims = claims
    WHERE r.name = _name AND r.line_claims IS DISTINCT FROM claims;
END $$;
