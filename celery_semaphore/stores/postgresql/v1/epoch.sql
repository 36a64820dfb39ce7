-- Begin a call: lock its resources, read the clock, and check the epoch.

CREATE FUNCTION celery_semaphore.v1_digest(_name text, _other text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(_other, hashtextextended(_name, 0)) $$;

-- What every call brings. To call a function in psql: '(,30000000,30000000,,2000)' with leases of 30 s.
CREATE TYPE celery_semaphore.v1_call AS (
    clock bigint, -- the time, in tests; null: the server's clock counts
    lease bigint, -- how long a permit lives without a renewal, as the caller knows it (A16)
    take_up bigint, -- how long the grant of a sent message lasts, likewise
    known_epoch bigint, -- the newest epoch that the caller knows; null: none
    lock_timeout int -- how long to wait for the lock of another call, in milliseconds
);

-- The instant of a call, on which all its functions agree.
CREATE TYPE celery_semaphore.v1_moment AS (
    now bigint, epoch bigint, grace_until bigint, in_grace bool, lease bigint, take_up bigint,
    slowest bigint, -- the longest lease that some may still renew by
    permits_ended_by bigint, -- the time that the lease of a permit must have ended by, if the permit is over (A17); and
        -- windows (A4)
    spared_until bigint -- what is over and stays, stays until then: after a silence or in a grace
);

-- Serialize all calls at these resources until the end of the transaction. The locks are always taken in the same
-- order, so that no two calls deadlock.
CREATE FUNCTION celery_semaphore.v1_lock(_names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _names = '{}' THEN
        RETURN;
    ELSIF cardinality(_names) = 1 THEN
        PERFORM pg_advisory_xact_lock(celery_semaphore.v1_lock_key(_names[1]));
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(keys.key) FROM (
        SELECT DISTINCT celery_semaphore.v1_lock_key(names.name) AS key
        FROM unnest(_names) AS names (name)
        ORDER BY key
    ) AS keys;
END $$;

-- Return the resources that the entries of a JSON array name in their `resources`.
CREATE FUNCTION celery_semaphore.v1_resources_of(_entries jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(
        SELECT DISTINCT jsonb_array_elements_text(each.entry -> 'resources')
        FROM jsonb_array_elements(_entries) AS each (entry))
$$;

-- Lock those resources that no other call has locked; return their names. Another call may keep its locks for long: a
-- standby that does not confirm delays the end of its transaction.
CREATE FUNCTION celery_semaphore.v1_lock_free(_names text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    one text;
    locked text[] := '{}';
BEGIN
    FOREACH one IN ARRAY _names LOOP
        IF pg_try_advisory_xact_lock(celery_semaphore.v1_lock_key(one)) THEN
            locked := locked || one;
        END IF;
    END LOOP;
    RETURN locked;
END $$;

CREATE FUNCTION celery_semaphore.v1_lock_key(_name text) RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT hashtextextended(_name, 'celery_semaphore.permit'::regclass::oid::bigint) $$;

CREATE FUNCTION celery_semaphore.v1_now(_clock bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(_clock, floor(date_part('epoch', clock_timestamp()) * 1000000)::bigint) $$;

-- Return the format that these functions read and write.
CREATE FUNCTION celery_semaphore.v1_format() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 1 $$;

-- A1, Q1: raise an error if the tables have a newer format, which this call must not write; it is rolled back.
CREATE FUNCTION celery_semaphore.v1_check_format(_found int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _found > celery_semaphore.v1_format() THEN
        RAISE EXCEPTION '%', _found USING ERRCODE = 'CS002';
    END IF;
END $$;

-- A16: raise an error if the call brings other durations than the store keeps; it is rolled back, and the caller
-- repeats it with these. So no caller's own ones count for the permits of others.
CREATE FUNCTION celery_semaphore.v1_check_lease(
    _lease bigint, _take_up bigint, _call celery_semaphore.v1_call
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF _lease <> _call.lease OR _take_up <> _call.take_up THEN
        RAISE EXCEPTION '% %', _lease, _take_up USING ERRCODE = 'CS003';
    END IF;
END $$;

-- A1, A16: check the format and the durations for a call that begins no epoch. A store without an epoch has neither.
CREATE FUNCTION celery_semaphore.v1_check_call(_call celery_semaphore.v1_call) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM celery_semaphore.v1_check_format(b.format), celery_semaphore.v1_check_lease(b.lease, b.take_up, _call)
    FROM celery_semaphore.epoch_before AS b;
END $$;

-- Return the longest lease that some may still renew by: after the lease became shorter, holders may renew by the
-- longer one until their next call (A16).
CREATE FUNCTION celery_semaphore.v1_slowest(_epoch celery_semaphore.epoch, _now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _now < _epoch.slow_until THEN greatest(_epoch.lease, _epoch.slow) ELSE _epoch.lease END
$$;

-- Return how long holders may need to renew again: two renewals.
CREATE FUNCTION celery_semaphore.v1_grace(_epoch celery_semaphore.epoch, _now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT celery_semaphore.v1_slowest(_epoch, _now) * 2 / 3 $$;

-- Return the latest time that a lease or a grant can end. After the server's clock stepped back, later times are cut to
-- this one: otherwise all would wait for the length of the step. It allows three times the longest duration, for a
-- clock that only stutters.
CREATE FUNCTION celery_semaphore.v1_latest_end(_now bigint, _lease bigint, _take_up bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT _now + 3 * greatest(_lease, _take_up) $$;

-- A2: begin a new epoch if the record is missing or of another server run, since permits may be lost (E16), or their
-- holders could not renew them. The same holds if the caller knows a newer epoch: it was connected to a server that
-- took over meanwhile, and came back to this one. The first caller of an unused store needs no grace. If a caller knew
-- an older epoch, even later, a grace lets living holders restore their permits first.
CREATE FUNCTION celery_semaphore.v1_begin_epoch(
    _now bigint, _call celery_semaphore.v1_call
) RETURNS celery_semaphore.epoch LANGUAGE plpgsql AS $$
DECLARE
    run timestamptz := pg_postmaster_start_time();
    known bigint := _call.known_epoch;
    before celery_semaphore.epoch_before;
    new celery_semaphore.epoch;
    epoch celery_semaphore.epoch;
    furthest bigint;
BEGIN
    SELECT * INTO before FROM celery_semaphore.epoch_before AS b WHERE b.one;
    new := (
        true, greatest(_now, coalesce(before.id, 0) + 1, coalesce(known, 0) + 1), run, _now, 0,
        coalesce(before.format, celery_semaphore.v1_format()),
        coalesce(before.lease, _call.lease), coalesce(before.take_up, _call.take_up),
        coalesce(before.slow, 0), coalesce(before.slow_until, 0), _now, 0, 0);
    IF before.id IS NOT NULL OR known IS NOT NULL THEN
        new.grace_until := _now + celery_semaphore.v1_grace(new, _now);
    END IF;
    -- Of several calls at once, one begins the epoch: the others wait for it here, and change nothing.
    INSERT INTO celery_semaphore.epoch AS e SELECT new.*
    ON CONFLICT (one) DO UPDATE
    SET id = excluded.id, started = excluded.started, created = excluded.created, grace_until = excluded.grace_until
    WHERE e.started <> run OR e.id < known;
    IF FOUND THEN
        -- The record that there was an epoch must not be lost, so it goes to this server's disk. The commit does not
        -- wait for a standby, which may have been lost with the previous server: all other calls wait for this one. A
        -- standby that takes over without this record begins its own epoch, for it is another run of the server.
        PERFORM set_config('synchronous_commit', 'local', true);
        INSERT INTO celery_semaphore.epoch_before AS b VALUES (true, new.id, new.format, new.lease, new.take_up)
        ON CONFLICT (one) DO UPDATE SET id = excluded.id;
    END IF;
    -- The caller knew what the first one of this epoch did not; its durations, too, were in force before (A16).
    UPDATE celery_semaphore.epoch AS e
    SET grace_until = _now + greatest(_call.lease, CASE WHEN _now < e.slow_until THEN e.slow END) * 2 / 3,
        lease = _call.lease, take_up = _call.take_up
    WHERE e.one AND e.id <> known AND e.grace_until = 0 AND _now < e.created + _call.lease;
    IF FOUND THEN
        UPDATE celery_semaphore.epoch_before AS b SET lease = _call.lease, take_up = _call.take_up WHERE b.one;
    END IF;
    SELECT * INTO epoch FROM celery_semaphore.epoch AS e WHERE e.one;
    furthest := celery_semaphore.v1_latest_end(_now, celery_semaphore.v1_slowest(epoch, _now), epoch.take_up);
    IF epoch.grace_until > furthest THEN
        UPDATE celery_semaphore.epoch AS e SET grace_until = furthest WHERE e.one;
        epoch.grace_until := furthest;
    END IF;
    RETURN epoch;
END $$;

-- Raise an error under another isolation level, where a call would not see what the calls before it committed.
CREATE FUNCTION celery_semaphore.v1_need_read_committed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'celery_semaphore needs READ COMMITTED' USING ERRCODE = 'CS001';
    END IF;
END $$;

-- A17: note the time of the call, at most ten times in a lease. If no call came for longer than two renewals take, no
-- holder could renew: then no permit that was alive when the silence began ends for the length of a grace. A holder may
-- not have renewed by a longer lease yet.
-- It never waits for another call that notes its own time: both read the same record, and conclude the same from it.
-- A call that is `_durable` writes nothing, for it may wait for a standby, and would keep the row locked meanwhile.
CREATE FUNCTION celery_semaphore.v1_note_call(
    _epoch celery_semaphore.epoch, _now bigint, _durable bool DEFAULT false
) RETURNS celery_semaphore.epoch LANGUAGE plpgsql AS $$
DECLARE
    before bigint := _epoch.called;
    shortest bigint := CASE
        WHEN _epoch.called < _epoch.slow_until THEN least(_epoch.lease, _epoch.slow) ELSE _epoch.lease END;
BEGIN
    IF abs(_now - before) * 10 < _epoch.lease THEN
        RETURN _epoch;
    ELSIF _now < before THEN -- the clock stepped back
        _epoch.awaited_until := 0;
    ELSIF _now - before > shortest * 2 / 3 THEN
        _epoch.silent_since := before;
        _epoch.awaited_until := _now + celery_semaphore.v1_grace(_epoch, _now);
    END IF;
    _epoch.called := _now;
    UPDATE celery_semaphore.epoch AS e
    SET called = _now, silent_since = _epoch.silent_since, awaited_until = _epoch.awaited_until
    WHERE e.one AND NOT _durable AND EXISTS (
        SELECT FROM celery_semaphore.epoch AS free WHERE free.one AND free.called = before FOR UPDATE SKIP LOCKED);
    RETURN _epoch;
END $$;

-- Take the locks and return the moment of the call. A crash may lose permits, for their holders restore them, so
-- commits do not wait for the disk unless the call is `_durable`.
CREATE FUNCTION celery_semaphore.v1_enter(
    _names text[], _call celery_semaphore.v1_call,
    _durable bool DEFAULT false
) RETURNS celery_semaphore.v1_moment LANGUAGE plpgsql AS $$
DECLARE
    asked text;
    epoch celery_semaphore.epoch;
    now bigint;
    slowest bigint;
BEGIN
    PERFORM celery_semaphore.v1_need_read_committed();
    IF NOT _durable THEN
        asked := set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        asked := set_config('synchronous_commit', 'on', true);
    END IF;
    asked := set_config('lock_timeout', _call.lock_timeout::text, true);
    PERFORM celery_semaphore.v1_lock(_names);
    now := celery_semaphore.v1_now(_call.clock);
    SELECT * INTO epoch FROM celery_semaphore.epoch AS e WHERE e.one;
    IF NOT FOUND OR epoch.started <> pg_postmaster_start_time() OR epoch.id <> _call.known_epoch
        OR epoch.grace_until > celery_semaphore.v1_latest_end(
            now, celery_semaphore.v1_slowest(epoch, now), epoch.take_up)
    THEN
        epoch := celery_semaphore.v1_begin_epoch(now, _call);
    END IF;
    PERFORM celery_semaphore.v1_check_format(epoch.format);
    PERFORM celery_semaphore.v1_check_lease(epoch.lease, epoch.take_up, _call);
    slowest := celery_semaphore.v1_slowest(epoch, now);
    epoch := celery_semaphore.v1_note_call(epoch, now, _durable);
    RETURN (now, epoch.id, epoch.grace_until, now < epoch.grace_until, epoch.lease, epoch.take_up, slowest,
        CASE WHEN now < epoch.awaited_until THEN epoch.silent_since ELSE now END,
        greatest(epoch.awaited_until, epoch.grace_until));
END $$;

-- Apply the settings and take the lock of v1_enter for one resource, in one expression to save the fixed cost of
-- statements. Return false under another isolation level, for which v1_enter raises an error.
CREATE FUNCTION celery_semaphore.v1_enter_one(_name text, _lock_timeout int) RETURNS bool LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN current_setting('transaction_isolation') <> 'read committed' THEN false
        WHEN set_config('synchronous_commit', 'off', true) IS NULL THEN false
        WHEN set_config('lock_timeout', _lock_timeout::text, true) IS NULL THEN false
        ELSE pg_advisory_xact_lock(celery_semaphore.v1_lock_key(_name)) IS NOT NULL
    END
$$;

-- The same for several resources; but raise the error.
CREATE FUNCTION celery_semaphore.v1_enter_several(_names text[], _lock_timeout int) RETURNS bool
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM celery_semaphore.v1_need_read_committed();
    PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', _lock_timeout::text, true);
    PERFORM celery_semaphore.v1_lock(_names);
    RETURN true;
END $$;

-- Return whether the epoch and its durations are those that the caller knows, its format is known, there is no grace,
-- no holder is awaited after a silence, and the time of this call need not be noted (A17). A short way leaves permits
-- that are overdue to the long one.
CREATE FUNCTION celery_semaphore.v1_is_current(
    _epoch celery_semaphore.epoch, _call celery_semaphore.v1_call, _now bigint
) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT _epoch.started = pg_postmaster_start_time() AND _epoch.id = coalesce(_call.known_epoch, _epoch.id)
        AND _epoch.lease = _call.lease AND _epoch.take_up = _call.take_up
        AND _epoch.grace_until <= _now AND _epoch.awaited_until <= _now AND _epoch.format <= celery_semaphore.v1_format()
        AND abs(_now - _epoch.called) * 10 < _epoch.lease
$$;

-- Return whether a permit or a grant with this end is over, outside of a grace: in that nothing ends.
CREATE FUNCTION celery_semaphore.v1_is_over(
    _ends bigint, _granted bool, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
    SELECT _ends <= CASE WHEN _granted THEN _m.now ELSE _m.permits_ended_by END
$$;

-- Change the durations that the store keeps for all callers (A16). The record is durable: a restart must not bring the
-- old ones back.
CREATE FUNCTION celery_semaphore.v1_set_lease(
    _call celery_semaphore.v1_call, _lease bigint, _take_up bigint
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    m celery_semaphore.v1_moment := celery_semaphore.v1_enter('{}', _call, true);
BEGIN
    UPDATE celery_semaphore.epoch AS e -- first, as in v1_begin_epoch: so no two calls deadlock
    SET lease = _lease, take_up = _take_up, slow = greatest(e.lease, m.slowest),
        slow_until = m.now + greatest(e.lease, m.slowest)
    WHERE e.one;
    UPDATE celery_semaphore.epoch_before AS b
    SET lease = e.lease, take_up = e.take_up, slow = e.slow, slow_until = e.slow_until
    FROM celery_semaphore.epoch AS e WHERE e.one AND b.one;
    RETURN m.epoch;
END $$;
