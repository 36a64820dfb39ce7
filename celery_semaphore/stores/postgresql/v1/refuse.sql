-- Refuse an acquire, and put its wait into line.

CREATE TYPE celery_semaphore.v1_acquisition AS (
    holder text,
    ticket celery_semaphore.v1_ticket, -- as the store has it, or a new one; the caller leaves it null
    carried text, -- the ticket that the caller or its message brought; or empty
    kind text, -- how it waits; empty: not at all
    priority int, shortest bigint, longest bigint, jitter float8,
    timeout bigint, -- of the whole wait; null: none
    session text, -- that asks for its grants; empty: none
    keeps bigint, -- how long its place is kept in transit, if longer than a lease
    claims text, -- as the caller wrote them
    task text, -- of the message; empty: unknown
    message text, -- which of the task's messages; null: the first
    remember bigint, -- for how long its copies are recognised
    task_id text, -- of the task, if the broker delivered this message before; else null
    declared_by text, -- the process that declares the limits
    resources text[], limits bigint[], weights bigint[]
);

CREATE TYPE celery_semaphore.v1_answer AS (
    epoch bigint, token bigint, since bigint, ends bigint, -- a permit; or
    reason text, n int, in_force bigint, occupied bigint, ticket text, turn bigint, retry bigint, waited bigint,
    declared_by text, -- of a weight above the limit in force: the process that declared it; null if an operator set it
    others text, -- A19: the claims of the wait
    kept bigint -- beside `occupied`: what waits before this one keep
);

-- Return the time that is left of the wait's timeout; null: it has none.
CREATE FUNCTION celery_semaphore.v1_time_left(_a celery_semaphore.v1_acquisition, _now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT _a.timeout - greatest(0, _now - (_a.ticket).place)
$$;

-- Return the delay after which a permit can be expected here: by the position in line and the mean time of permits.
CREATE FUNCTION celery_semaphore.v1_retry_delay(
    _a celery_semaphore.v1_acquisition, _at celery_semaphore.v1_resource, _in_force bigint, _reason text, _turn bigint,
    _runs_until bigint, _m celery_semaphore.v1_moment
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    delay float8 := _m.lease;
BEGIN
    IF _reason = 'running' THEN -- that run may end, or die
        RETURN greatest(_a.shortest, least(_a.longest, _m.lease / 3, _runs_until - _m.now));
    ELSIF _in_force > 0 AND _reason <> 'unsatisfiable' THEN
        delay := _a.jitter * (_turn + 1) / _in_force * coalesce(_at.mean, 1000000);
    END IF;
    delay := greatest(_a.shortest, least(_a.longest, delay));
    IF _reason = 'recovering' THEN
        delay := greatest(delay, _m.grace_until - _m.now);
    END IF;
    RETURN floor(least(delay, celery_semaphore.v1_time_left(_a, _m.now)))::bigint;
END $$;

-- C1: return the number of the first claim that declares 0, or null: a callable says that the task must not run now.
CREATE FUNCTION celery_semaphore.v1_refused_by(_limits bigint[]) RETURNS int
LANGUAGE sql IMMUTABLE AS $$ SELECT array_position(_limits, 0::bigint) $$;

-- Put the wait into the line of the claim that refused.
CREATE FUNCTION celery_semaphore.v1_enqueue(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _n int, _due bigint,
        _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stood celery_semaphore.waiter := celery_semaphore.v1_delete_wait((_a.ticket).nonce, _a.resources);
    refuses_itself bool := celery_semaphore.v1_refused_by(_a.limits) IS NOT NULL; -- E17
    stays bool := _a.kind = 'park' AND stood.payload IS NOT NULL AND NOT refuses_itself; -- its message is here already
    session text := CASE WHEN stays OR refuses_itself THEN '' ELSE _a.session END;
    awake bool;
BEGIN
    IF _a.session <> '' AND _a.kind = 'block' THEN -- the same process asks for the grants of this session
        PERFORM celery_semaphore.v1_wake(_a.session, NULL, _m);
    END IF;
    awake := session <> '' AND celery_semaphore.v1_is_awake(session, _m); -- E1, else E2
    FOR tries IN 1..2 LOOP
        INSERT INTO celery_semaphore.waiter
            (id, resource, urgency, place, nonce, state, outbox, kind, weight, own_limit, resources, weights, limits,
                claims,
             due, ends, name, payload, broker, session, epoch, keeps)
        VALUES (
            celery_semaphore.v1_wait_id((_a.ticket).nonce),
            _a.resources[_n], (_a.ticket).urgency, (_a.ticket).place, (_a.ticket).nonce,
            CASE WHEN stays OR awake THEN 'in_line' ELSE 'in_transit' END, false,
            _a.kind, _a.weights[_n], _a.limits[_n], _a.resources, _a.weights, _a.limits, _a.claims, _due,
            CASE WHEN stays THEN stood.ends WHEN NOT awake THEN _due + greatest(_m.lease, _a.keeps) END,
            CASE WHEN stays THEN stood.name ELSE '' END, CASE WHEN stays THEN stood.payload END,
            CASE WHEN stays THEN stood.broker ELSE '' END, session, _m.epoch,
            _a.keeps
        ) ON CONFLICT (id) DO NOTHING;
        EXIT WHEN FOUND;
        PERFORM celery_semaphore.v1_check_claims((_a.ticket).nonce, _a.resources, _a.weights, tries);
    END LOOP;
    IF stays AND stood.ends IS NOT NULL THEN
        PERFORM celery_semaphore.v1_mark_in_use(_a.resources[_n], stood.ends);
    END IF;
    -- When the grace ends, or the limit in force rises, a reaper must look: perhaps nothing is released here.
    IF _m.in_grace THEN
        PERFORM celery_semaphore.v1_mark_in_use(_a.resources[_n], _m.grace_until);
    ELSE
        PERFORM celery_semaphore.v1_mark_in_use(_a.resources[_n], least(_m.now + _m.lease, rises.at))
        FROM celery_semaphore.v1_rises_at(_a.resources[_n], _m) AS rises (at) WHERE rises.at IS NOT NULL;
    END IF;
END $$;

-- Refuse an acquire. `_runs_until`: when the lease ends of the message of its task that was admitted; null: none runs.
CREATE FUNCTION celery_semaphore.v1_refuse(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _n int, _reason text, _runs_until bigint,
    _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource := _ats[_n];
    answer celery_semaphore.v1_answer;
BEGIN
    answer.epoch := _m.epoch;
    answer.reason := _reason;
    answer.n := _n;
    answer.in_force := CASE WHEN _a.limits[_n] = 0 THEN 0 ELSE coalesce(at.operator, at.declared, 0) END;
    answer.occupied := at.occupied;
    answer.kept := CASE WHEN at.kept IS NULL THEN 0 ELSE celery_semaphore.v1_kept_before(at.kept, _a.ticket) END;
    answer.turn := CASE WHEN at.waits THEN celery_semaphore.v1_position(at.name, _a.ticket) ELSE 0 END;
    answer.retry := celery_semaphore.v1_retry_delay(
        _a, at, answer.in_force, _reason, answer.turn, _runs_until, _m);
    answer.waited := greatest(0, _m.now - (_a.ticket).place);
    answer.ticket := ''; -- also of A9: the wait ended when that message was admitted
    IF _a.kind <> '' AND _reason NOT IN ('released', 'copy', 'running') THEN
        IF celery_semaphore.v1_time_left(_a, _m.now) <= 0 THEN
            PERFORM celery_semaphore.v1_delete_wait((_a.ticket).nonce, _a.resources);
            answer.reason := 'timed_out';
            answer.retry := 0;
        ELSE
            answer.ticket := celery_semaphore.v1_format_ticket(_a.ticket);
            PERFORM celery_semaphore.v1_enqueue(_a, _ats, _n, _m.now + answer.retry, _m);
        END IF;
    END IF;
    IF _a.kind <> 'block' OR answer.reason <> 'saturated' THEN -- else it only asks again
        PERFORM celery_semaphore.v1_end_own_room((_a.ticket).nonce, _ats, _m);
    END IF;
    IF answer.reason = 'unsatisfiable' AND at.operator IS NULL THEN
        SELECT celery_semaphore.v1_declared_by(at.name, r, _m.permits_ended_by) INTO answer.declared_by
        FROM (SELECT) AS one LEFT JOIN celery_semaphore.resource AS r ON r.name = at.name;
    END IF;
    -- The message goes back. An earlier message that was admitted did not end the task: this one would not exist.
    IF (answer.ticket <> '' OR answer.reason = 'recovering') AND _runs_until IS NULL THEN
        PERFORM celery_semaphore.v1_remember_message(
            _a, CASE WHEN answer.ticket <> '' THEN answer.ticket ELSE _a.carried END, NULL, _m.now);
    END IF;
    RETURN answer;
END $$;
