-- Know which sessions are awake. The rows are those of docs/maintain/architecture.md, chapters 4 and 5.

-- Return how long a grant waits for its session to take it up, in microseconds: GRANT_S in core/session.py.
CREATE FUNCTION celery_semaphore.v1_grant_lasts() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 2000000::bigint $$;

CREATE FUNCTION celery_semaphore.v1_asked_since(_session text, _then bigint) RETURNS bool
LANGUAGE sql STABLE AS $$
    SELECT (SELECT true FROM celery_semaphore.session AS s WHERE s.name = _session AND s.asked > _then) IS NOT NULL
$$;

CREATE FUNCTION celery_semaphore.v1_is_awake(
    _session text, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RETURN celery_semaphore.v1_asked_since(_session, _m.now - _m.lease);
END $$;

-- Mark the session awake; return whether it slept. Call it after the locks of the resources and before another session
-- may be put to sleep, which waits for no row: so no two calls deadlock.
CREATE FUNCTION celery_semaphore.v1_wake(
    _session text, _room bigint, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    slept bool;
BEGIN
    INSERT INTO celery_semaphore.session AS s (name, asked, room) VALUES (_session, _m.now, _room)
    ON CONFLICT (name) DO UPDATE SET before = s.asked, asked = excluded.asked, room = excluded.room
    RETURNING coalesce(s.before <= _m.now - _m.lease, true) INTO slept;
    RETURN slept;
END $$;

-- Return whether the session can use another grant (H11). A wait without a session has its message here.
CREATE FUNCTION celery_semaphore.v1_has_room(_session text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    its_room bigint;
BEGIN
    SELECT s.room INTO its_room FROM celery_semaphore.session AS s WHERE s.name = _session;
    RETURN its_room IS NULL OR its_room > (
        SELECT count(*) FROM celery_semaphore.waiter AS w
        WHERE w.session = _session AND w.session <> '' AND w.state = 'granted');
END $$;

-- Return whether a wait has a session that sleeps, or that did not yet say in this epoch that it owns the wait. One of
-- an earlier epoch may have ended in the moments that the store lost; then no session would take its grant up. In SQL,
-- so that the planner inlines it: some queries call it for a thousand rows.
CREATE FUNCTION celery_semaphore.v1_is_out_of_reach(
    _session text, _epoch bigint, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT _session <> ''
        AND (_epoch <> _m.epoch OR NOT celery_semaphore.v1_asked_since(_session, _m.now - _m.lease))
$$;

-- E5: put those of the first thousand set-aside waits in transit that are not reachable; they keep their places.
CREATE FUNCTION celery_semaphore.v1_put_set_aside_in_transit(
    _name text, _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE celery_semaphore.waiter AS w
    SET state = 'in_transit', due = _m.now, ends = _m.now + greatest(_m.lease, w.keeps)
    WHERE w.id = ANY (ARRAY(
        SELECT aside.id FROM (
            SELECT each.id, each.session, each.epoch FROM celery_semaphore.waiter AS each
            WHERE each.resource = _name AND each.state = 'set_aside'
            ORDER BY each.urgency, each.place, each.nonce LIMIT 1000
        ) AS aside
        WHERE celery_semaphore.v1_is_out_of_reach(aside.session, aside.epoch, _m)));
END $$;

-- E7: put the wait in transit, for its session did not take up the grant. If the session did not ask since the grant,
-- or for as long as a grant lasts, it sleeps, and with it all its waits. A session row that another call has locked is
-- skipped: it asks right now, or that call puts it to sleep. Return false for a wait without a session.
CREATE FUNCTION celery_semaphore.v1_end_untaken_grant(
    _id bigint, _resource text, _granted_at bigint, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    its_session text;
BEGIN
    UPDATE celery_semaphore.waiter AS w
    SET state = 'in_transit', due = _m.now, ends = _m.now + greatest(_m.lease, w.keeps)
    WHERE w.id = _id AND w.resource = _resource AND w.session <> '' RETURNING w.session INTO its_session;
    DELETE FROM celery_semaphore.session AS s WHERE s.ctid = ANY (ARRAY(
        SELECT late.ctid FROM celery_semaphore.session AS late
        WHERE late.name = its_session
            AND late.asked <= greatest(_granted_at, _m.now - celery_semaphore.v1_grant_lasts())
        FOR UPDATE SKIP LOCKED));
    RETURN its_session IS NOT NULL;
END $$;
