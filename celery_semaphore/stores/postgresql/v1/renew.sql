-- Extend leases on all resources; restore only permits that the store lost.
--   permits  [{"holder", "token", "since", "epoch", "resources": [...], "limits": [...], "weights": [...]}...]
-- Return 'ok', 'restored' or 'lost' for each, in order; or 'busy' if another call has locked one of its resources and
-- this call must not wait (`_waits`).
CREATE FUNCTION celery_semaphore.v1_renew(
    _call celery_semaphore.v1_call, _permits jsonb, _waits bool,
    OUT epoch bigint, OUT became text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    permit record;
    wanted text[] := ARRAY(
        SELECT DISTINCT jsonb_array_elements_text(p -> 'resources') FROM jsonb_array_elements(_permits) AS p);
BEGIN
    IF NOT _waits THEN
        wanted := celery_semaphore.v1_lock_free(wanted);
    END IF;
    m := celery_semaphore.v1_enter(
        CASE WHEN _waits THEN wanted ELSE '{}' END, _call);
    epoch := m.epoch;
    FOR permit IN
        SELECT * FROM jsonb_to_recordset(_permits) AS p (
            holder text, token bigint, since bigint, epoch bigint, resources text[], limits bigint[], weights bigint[])
    LOOP
        IF permit.resources <@ wanted THEN
            became := became || celery_semaphore.v1_renew_one(
                permit.holder, permit.token, permit.since, permit.epoch, permit.resources, permit.limits,
                    permit.weights, m);
        ELSE
            became := became || 'busy'::text;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION celery_semaphore.v1_renew_one(
    _holder text, _token bigint, _since bigint, _epoch bigint, _resources text[], _limits bigint[], _weights bigint[],
    _m celery_semaphore.v1_moment
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    mine celery_semaphore.v1_held;
    ats celery_semaphore.v1_resource[];
    in_force bigint[];
    restored bool[] := array_fill(false, ARRAY[cardinality(_resources)]);
    given_to text; -- the grant of this permit, if the store lost only its take-up: a replica lags
BEGIN
    FOR n IN 1..cardinality(_resources) LOOP
        ats[n] := celery_semaphore.v1_reap_and_read(_resources[n], _holder, _m);
    END LOOP;
    in_force := celery_semaphore.v1_limits_in_force(ats, _limits);
    mine := celery_semaphore.v1_find_permit(_holder, _resources, in_force, _weights, _m);
    IF NOT mine.whole THEN
        SELECT p.holder INTO given_to FROM celery_semaphore.permit AS p
        WHERE p.resource = _resources[1] AND p.holder IS NOT NULL AND p.granted AND p.token = _token LIMIT 1;
        IF NOT celery_semaphore.v1_may_restore(_epoch, ats, ARRAY[_holder, given_to], in_force, _weights, _m) THEN
            IF mine.part THEN
                PERFORM celery_semaphore.v1_end_partial_permit(_holder, _resources, _m);
            END IF;
            RETURN 'lost';
        END IF;
        FOR n IN 1..cardinality(_resources) LOOP
            PERFORM 1 FROM celery_semaphore.permit AS p
            WHERE p.resource = _resources[n] AND p.holder IN (_holder, given_to);
            restored[n] := NOT FOUND;
        END LOOP;
        -- The grant became the holder's permit, and its message was delivered: both end here.
        PERFORM celery_semaphore.v1_free_rows(given_to, _resources, _m.now);
        FOR n IN 1..cardinality(_resources) LOOP
            DELETE FROM celery_semaphore.waiter AS w
            WHERE w.id = celery_semaphore.v1_digest(_resources[n], celery_semaphore.v1_nonce_of_grant(given_to));
            ats[n] := celery_semaphore.v1_read(_resources[n], _holder, _m);
        END LOOP;
    END IF;
    FOR n IN 1..cardinality(_resources) LOOP
        PERFORM celery_semaphore.v1_write_permit(
            ats[n], _holder, _weights[n], _token, _since, _m.now + _m.lease, _m.epoch, _restored => restored[n]);
        PERFORM celery_semaphore.v1_mark_in_use(_resources[n], _m.now + _m.lease);
    END LOOP;
    RETURN CASE WHEN mine.whole THEN 'ok' ELSE 'restored' END;
END $$;

-- Return whether the store lost this permit and may restore it: only in the grace, not one of the present epoch, not of
-- a holder with a tombstone, and not above the limit.
CREATE FUNCTION celery_semaphore.v1_may_restore(
    _epoch bigint, _ats celery_semaphore.v1_resource[], _own text[], _limits bigint[], _weights bigint[],
        _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF NOT _m.in_grace OR _epoch = _m.epoch THEN
        RETURN false;
    END IF;
    FOR n IN 1..cardinality(_ats) LOOP
        IF _ats[n].was_released OR NOT celery_semaphore.v1_has_room_to_restore(
            _ats[n].name, _weights[n], _limits[n], _own, _m)
        THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END $$;
