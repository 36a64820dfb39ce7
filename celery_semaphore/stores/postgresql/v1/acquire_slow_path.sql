-- Decide the calls of acquire that v1_acquire does not: several resources, later messages of a task, waits without a
-- grant, holders that have a permit or were released, new or idle resources, a changed limit, the grace, most refusals.
CREATE FUNCTION celery_semaphore.v1_acquire_slow_path(
    _call celery_semaphore.v1_call, _a celery_semaphore.v1_acquisition
) RETURNS celery_semaphore.v1_answer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment := celery_semaphore.v1_enter(_a.resources, _call);
    ats celery_semaphore.v1_resource[];
    known celery_semaphore.waiter;
    others text;
    given celery_semaphore.v1_held;
    said celery_semaphore.message;
    runs_until bigint;
    anew bool := false;
    holds bool := false;
BEGIN
    _a.ticket := celery_semaphore.v1_parse_ticket(_a.carried);
    FOR n IN 1..cardinality(_a.resources) LOOP
        ats[n] := celery_semaphore.v1_declare_limit( -- A3, A4
            celery_semaphore.v1_reap_and_read(_a.resources[n], _a.holder, m), _a.limits[n], _a.declared_by, m);
        holds := holds OR ats[n].mine IS NOT NULL;
    END LOOP;
    IF _a.task <> '' AND _a.message IS NOT NULL THEN
        said := celery_semaphore.v1_message_record(_a, m.now);
        IF (celery_semaphore.v1_parse_ticket(said.ticket)).nonce <> (_a.ticket).nonce THEN
            said := NULL;
            _a.task := ''; -- the record belongs to another wait: keep it
        ELSIF said.task IS NULL AND _a.task_id IS NOT NULL THEN
            said := celery_semaphore.v1_unknown_run(_a);
        END IF;
        SELECT p.ends INTO runs_until FROM celery_semaphore.permit AS p
        WHERE p.resource = _a.resources[1] AND p.holder = said.holder AND said.admitted IS NOT NULL;
        -- A15: it is the admitted one, delivered again, or another that brings no ticket of a later wait. A header has
        -- the ticket also when its wait is over.
        anew := coalesce(NOT said.ran AND runs_until IS NULL AND CASE
            WHEN said.admitted = _a.message THEN _a.task_id IS NOT NULL
            WHEN said.admitted IS NOT NULL THEN
                coalesce((_a.ticket).place <= (celery_semaphore.v1_parse_ticket(said.ticket)).place, true)
        END, false);
    END IF;
    _a := celery_semaphore.v1_with_ticket(_a, said, anew, m.now);
    SELECT * INTO known FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_wait_id((_a.ticket).nonce);
    others := celery_semaphore.v1_other_claims(known, _a.resources, _a.weights);
    IF known.resource = ANY (_a.resources) AND NOT anew THEN -- an operator may have promoted it
        _a.ticket := celery_semaphore.v1_ticket_of(known);
    END IF;
    IF known.id IS NOT NULL OR _a.carried <> '' THEN
        given := celery_semaphore.v1_find_permit(
            celery_semaphore.v1_grant_name((_a.ticket).nonce), _a.resources, _a.limits, _a.weights, m);
    END IF;
    IF _a.carried <> '' THEN
        _a.carried := celery_semaphore.v1_format_ticket(_a.ticket);
    END IF;
    IF holds THEN
        RETURN celery_semaphore.v1_confirm(_a, ats, m);
    END IF;
    RETURN celery_semaphore.v1_decide(_a, ats, others, said, runs_until, given, m);
END $$;

-- Add the ticket of the task's earlier message if the caller brought none, or that of a wait which ended since (A15);
-- or a new one, for a new wait or one that this holder began in a call that lost its answer.
CREATE FUNCTION celery_semaphore.v1_with_ticket(
    _a celery_semaphore.v1_acquisition, _said celery_semaphore.message, _anew bool, _now bigint
) RETURNS celery_semaphore.v1_acquisition LANGUAGE plpgsql AS $$
DECLARE
    told celery_semaphore.v1_ticket := celery_semaphore.v1_parse_ticket(_said.ticket);
BEGIN
    IF told.nonce IS NOT NULL AND (_a.carried = '' OR (_a.ticket).place < told.place) THEN
        _a.carried := _said.ticket;
        _a.ticket := told;
    END IF;
    IF _a.carried = '' OR _anew THEN
        _a.ticket := ROW(
            255 - greatest(0, least(255, _a.priority)), _now, coalesce((_a.ticket).nonce, _a.holder)
        )::celery_semaphore.v1_ticket;
    END IF;
    RETURN _a;
END $$;

-- A5, A6: answer a holder that has its permit on all claims, or on some.
CREATE FUNCTION celery_semaphore.v1_confirm(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    mine celery_semaphore.v1_held := celery_semaphore.v1_find_permit(
        _a.holder, _a.resources, celery_semaphore.v1_limits_of_living(_ats, _a.limits), _a.weights, _m);
BEGIN
    IF mine.whole THEN
        RETURN celery_semaphore.v1_permit_answer(mine, _m);
    END IF;
    -- The holder does not rely on that part: see A6.
    PERFORM celery_semaphore.v1_end_partial_permit(_a.holder, _a.resources, _m);
    _ats[1] := celery_semaphore.v1_read(_ats[1].name, _a.holder, _m);
    RETURN celery_semaphore.v1_refuse(_a, _ats, 1, 'released', NULL, _m);
END $$;

-- Decide for a holder that has no permit: check the tombstone, the claims of its wait, the other messages of its task,
-- the grant of its ticket, then the room (A7 to A14, A19, A20). `_others`: the claims of the wait, if they are others.
CREATE FUNCTION celery_semaphore.v1_decide(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _others text,
    _said celery_semaphore.message, _runs_until bigint, _given celery_semaphore.v1_held, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    whole bool := coalesce(_given.whole AND celery_semaphore.v1_refused_by(_a.limits) IS NULL, false);
BEGIN
    FOR n IN 1..cardinality(_ats) LOOP
        IF _ats[n].was_released THEN -- A7
            RETURN celery_semaphore.v1_refuse(_a, _ats, n, 'released', NULL, _m);
        END IF;
    END LOOP;
    IF _others IS NOT NULL THEN -- A19
        RETURN (_m.epoch, NULL, NULL, NULL, 'other claims', NULL, NULL, NULL,
            celery_semaphore.v1_format_ticket(_a.ticket), NULL, NULL, NULL, NULL, _others, NULL
        )::celery_semaphore.v1_answer;
    END IF;
    IF _said.admitted <> _a.message OR _said.admitted = _a.message AND _a.task_id IS NOT NULL THEN
        IF _said.ran THEN -- A8
            RETURN celery_semaphore.v1_refuse_copy(_a, _ats, _m);
        ELSIF _runs_until IS NOT NULL THEN -- A9
            IF _said.admitted = _a.message THEN
                PERFORM celery_semaphore.v1_note_run(_a, _said, _m.now);
            END IF;
            RETURN celery_semaphore.v1_refuse(_a, _ats, 1, 'running', _runs_until, _m);
        END IF;
    END IF;
    IF _given.part THEN -- A10, E8: the holder takes it up; A11: it has ended on some of its claims, or with its epoch,
        -- or must not run now
        PERFORM celery_semaphore.v1_free_rows(celery_semaphore.v1_grant_name((_a.ticket).nonce), _a.resources, _m.now);
        IF NOT whole THEN
            PERFORM celery_semaphore.v1_return_to_line((_a.ticket).nonce, _a.resources, _m);
        END IF;
        FOR n IN 1..cardinality(_ats) LOOP
            _ats[n] := celery_semaphore.v1_declare_limit(
                celery_semaphore.v1_read(_ats[n].name, _a.holder, _m), _a.limits[n], _a.declared_by, _m);
        END LOOP;
    END IF;
    IF NOT whole THEN
        RETURN celery_semaphore.v1_admit_if_room(_a, _ats, _runs_until, _m);
    END IF;
    RETURN celery_semaphore.v1_admit(_a, _ats, _given, _m);
END $$;

-- A12 to A14: refuse a call that waited too long, and a claim without room; else admit.
CREATE FUNCTION celery_semaphore.v1_admit_if_room(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _runs_until bigint,
    _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    refusing record;
BEGIN
    IF _a.kind = 'block' AND celery_semaphore.v1_time_left(_a, _m.now) <= 0 AND (_a.ticket).place < _m.now THEN
        RETURN celery_semaphore.v1_refuse(_a, _ats, 1, 'timed_out', _runs_until, _m); -- A12: even if there is room now
    END IF;
    IF celery_semaphore.v1_refused_by(_a.limits) IS NOT NULL THEN -- C1
        RETURN celery_semaphore.v1_refuse(
            _a, _ats, celery_semaphore.v1_refused_by(_a.limits), 'paused', _runs_until, _m);
    END IF;
    refusing := celery_semaphore.v1_refusing_claim(_ats, _a.weights, _a.ticket, NULL, _m);
    IF refusing.n IS NOT NULL THEN -- A13
        RETURN celery_semaphore.v1_refuse(_a, _ats, refusing.n, refusing.reason, _runs_until, _m);
    END IF;
    RETURN celery_semaphore.v1_admit(
        _a, _ats, (false, false, celery_semaphore.v1_new_token(_ats, _m.now), _m.now, NULL), _m); -- A14, E9
END $$;

-- A8: the wait is over, so a grant of its ticket ends too.
CREATE FUNCTION celery_semaphore.v1_refuse_copy(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource;
BEGIN
    PERFORM celery_semaphore.v1_free_rows(celery_semaphore.v1_grant_name((_a.ticket).nonce), _a.resources, _m.now);
    PERFORM celery_semaphore.v1_delete_wait((_a.ticket).nonce, _a.resources);
    FOREACH at IN ARRAY _ats LOOP
        PERFORM celery_semaphore.v1_mark_in_use(at.name, _m.now);
    END LOOP;
    _ats[1] := celery_semaphore.v1_read(_ats[1].name, _a.holder, _m);
    RETURN celery_semaphore.v1_refuse(_a, _ats, 1, 'copy', NULL, _m);
END $$;

CREATE FUNCTION celery_semaphore.v1_admit(
    _a celery_semaphore.v1_acquisition, _ats celery_semaphore.v1_resource[], _p celery_semaphore.v1_held,
    _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    ended celery_semaphore.waiter;
BEGIN
    -- Count the permit as held from now on: the time from the grant to here would make the expected waits too long.
    _p.since := _m.now;
    _p.ends := _m.now + _m.lease;
    FOR n IN 1..cardinality(_ats) LOOP
        PERFORM celery_semaphore.v1_write_permit(
            _ats[n], _a.holder, _a.weights[n], _p.token, _p.since, _p.ends, _m.epoch);
    END LOOP;
    ended := celery_semaphore.v1_delete_wait((_a.ticket).nonce, _a.resources);
    PERFORM celery_semaphore.v1_end_own_room((_a.ticket).nonce, _ats, _m);
    IF ended.payload IS NOT NULL THEN
        -- The store was not told yet that this message was sent. It must be gone when its task runs: a task that ends
        -- before a server that crashed is back restores no permit, and would run once more. As in v1_begin_epoch, the
        -- commit does not wait for a standby.
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    IF _a.task <> '' AND _a.message IS NULL THEN
        PERFORM celery_semaphore.v1_forget_message(_a);
    ELSIF _a.task <> '' THEN
        PERFORM celery_semaphore.v1_remember_message(_a, _a.carried, _a.message, _m.now);
    END IF;
    RETURN celery_semaphore.v1_permit_answer(_p, _m);
END $$;

CREATE FUNCTION celery_semaphore.v1_permit_answer(
    _p celery_semaphore.v1_held, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_answer LANGUAGE plpgsql AS $$
DECLARE
    answer celery_semaphore.v1_answer;
BEGIN
    answer.epoch := _m.epoch;
    answer.token := _p.token;
    answer.since := _p.since;
    answer.ends := _p.ends;
    RETURN answer;
END $$;
