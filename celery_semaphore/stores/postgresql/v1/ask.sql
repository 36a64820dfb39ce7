-- Let a session ask for its grants, or go to sleep: rows Q1 to Q6 of docs/maintain/architecture.md.

-- `_room` is how many grants the session can use, or null. `_begun` are the nonces of grants that are being taken up,
-- `_resources` their resources. `_forecast` are the nonces
-- of the waits to forecast; `_forecast_at` has, for each, a resource where it may be in line. `expected` is
-- [[nonce, microseconds]...].
--
-- Without `_begun` the call locks no resource, so a busy or stuck resource does not keep a session from being awake.
-- The line may change between its statements, which a forecast can bear.
CREATE FUNCTION celery_semaphore.v1_ask(
    _call celery_semaphore.v1_call,
    _session text, _room bigint, _begun text[], _resources text[], _forecast text[], _forecast_at text[],
    OUT epoch bigint, OUT slept bool, OUT sessions bigint, OUT granted text[], OUT expected jsonb
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    taken_up text[];
BEGIN
    m := celery_semaphore.v1_enter(_resources, _call); -- Q1
    epoch := m.epoch;
    slept := celery_semaphore.v1_wake(_session, _room, m); -- Q2
    granted := celery_semaphore.v1_granted_to(_session, m); -- Q3
    taken_up := ARRAY(
        SELECT celery_semaphore.v1_grant_name(each.nonce) FROM unnest(_begun) AS each (nonce)
        WHERE each.nonce = ANY (granted));
    IF taken_up <> '{}' THEN
        UPDATE celery_semaphore.permit AS p SET ends = m.now + celery_semaphore.v1_grant_lasts() -- Q4
        WHERE p.resource = ANY (_resources) AND p.holder = ANY (taken_up);
    END IF;
    sessions := celery_semaphore.v1_count_awake(m);
    expected := celery_semaphore.v1_expected_turns(_forecast, _forecast_at, m); -- Q5
END $$;

-- The LIMIT keeps the planner from turning the subquery into a join, which could read the whole table of permits.
CREATE FUNCTION celery_semaphore.v1_granted_to(
    _session text, _m celery_semaphore.v1_moment
) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT w.nonce FROM celery_semaphore.waiter AS w
        WHERE w.session = _session AND w.session <> '' AND w.state = 'granted' AND (
            SELECT true FROM celery_semaphore.permit AS p
            WHERE p.resource = w.resource AND p.holder = celery_semaphore.v1_grant_name(w.nonce)
            AND p.ends > _m.now LIMIT 1
        ) ORDER BY w.nonce);
END $$;

-- Count the sessions that are awake. Sessions that did not ask for a lease are deleted, some at a time. So are sessions
-- from before the clock stepped back, which would otherwise stay awake for the length of the step.
CREATE FUNCTION celery_semaphore.v1_count_awake(_m celery_semaphore.v1_moment) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    awake bigint;
    known bigint;
    furthest bigint := celery_semaphore.v1_latest_end(_m.now, _m.slowest, _m.take_up);
BEGIN
    SELECT count(*) FILTER (WHERE s.asked > _m.now - _m.lease AND s.asked <= furthest), count(*)
    INTO awake, known FROM celery_semaphore.session AS s;
    IF known > awake THEN
        DELETE FROM celery_semaphore.session AS s WHERE s.ctid = ANY (ARRAY(
            SELECT old.ctid FROM celery_semaphore.session AS old
            WHERE old.asked <= _m.now - _m.lease OR old.asked > furthest LIMIT 1000 FOR UPDATE SKIP LOCKED));
    END IF;
    RETURN awake;
END $$;

-- Forecast (position + 1) * hold / limit for waits in a line that moves. The newest hold counts if it is shorter than
-- the mean: a session that expects too long a wait lets permits idle, one that expects too short a wait only asks more
-- often. Positions beyond four seconds are not counted exactly: a session asks once a second anyway, and counting a
-- long line takes longer than the rest of the call.
CREATE FUNCTION celery_semaphore.v1_expected_turns(
    _nonces text[], _resources text[], _m celery_semaphore.v1_moment
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    turns jsonb := '[]';
    home text;
BEGIN
    FOR home IN SELECT DISTINCT one.name FROM unnest(_resources) AS one (name) LOOP
        turns := turns || celery_semaphore.v1_expected_turns_at(home, ARRAY(
            SELECT each.nonce FROM unnest(_nonces, _resources) AS each (nonce, resource) WHERE each.resource = home
        ), _m);
    END LOOP;
    RETURN turns;
END $$;

-- Forecast the waits that are in this line. The line is read once for all of them, in ranges: see v1_position.
CREATE FUNCTION celery_semaphore.v1_expected_turns_at(
    _home text, _nonces text[], _m celery_semaphore.v1_moment
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    standing text[];
    least_urgent smallint;
    last_place bigint;
    turn float8;
    far bigint;
BEGIN
    SELECT array_agg(w.nonce), max(w.urgency), max(w.place) INTO standing, least_urgent, last_place
    FROM celery_semaphore.waiter AS w
    WHERE w.state IN ('in_line', 'in_transit', 'set_aside') AND w.resource = _home AND w.id = ANY (ARRAY(
        SELECT celery_semaphore.v1_wait_id(each.nonce) FROM unnest(_nonces) AS each (nonce)));
    SELECT r.hold / r.in_force INTO turn FROM (
        SELECT coalesce(round(least(known.mean, known.latest)), 1000000) AS hold,
            coalesce((
                SELECT d.value FROM celery_semaphore.decision AS d
                WHERE d.name = ANY (celery_semaphore.v1_decision_names(_home)) AND d.until > _m.now
                ORDER BY d.name DESC LIMIT 1
            ), celery_semaphore.v1_declared(_home, known, _m.permits_ended_by)) AS in_force
        FROM celery_semaphore.resource AS known WHERE known.name = _home
    ) AS r WHERE r.in_force > 0;
    IF standing IS NULL OR turn IS NULL THEN
        RETURN '[]';
    END IF;
    far := greatest(100, least(10000, ceil(4000000 / greatest(turn, 1))));
    RETURN (
        WITH ahead AS MATERIALIZED (
            SELECT line.nonce, row_number() OVER (ORDER BY line.urgency, line.place, line.nonce) AS n FROM (
                SELECT each.* FROM unnest('{in_line,in_transit,set_aside}'::text[]) AS states (state), LATERAL (
                    (
                        SELECT w.urgency, w.place, w.nonce FROM celery_semaphore.waiter AS w
                        WHERE w.resource = _home AND w.state = states.state AND w.urgency < least_urgent
                        ORDER BY w.urgency, w.place, w.nonce LIMIT far
                    ) UNION ALL (
                        SELECT w.urgency, w.place, w.nonce FROM celery_semaphore.waiter AS w
                        WHERE w.resource = _home AND w.state = states.state AND w.urgency = least_urgent
                        AND w.place <= last_place
                        ORDER BY w.place, w.nonce LIMIT far
                    ) LIMIT far
                ) AS each
            ) AS line
        )
        SELECT jsonb_agg(jsonb_build_array(
            each.nonce, floor((least(coalesce(ahead.n - 1, far), far) + 1) * turn)::bigint))
        FROM unnest(standing) AS each (nonce) LEFT JOIN ahead USING (nonce)
    );
END $$;

-- Q6: put the session to sleep: it is granted nothing until it asks again.
CREATE FUNCTION celery_semaphore.v1_sleep(
    _call celery_semaphore.v1_call, _session text
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment := celery_semaphore.v1_enter('{}', _call);
BEGIN
    DELETE FROM celery_semaphore.session AS s WHERE s.name = _session;
    RETURN m.epoch;
END $$;
