-- A permit to renew, as its holder knows it.
CREATE TYPE celery_semaphore.v1_renewal AS (
    holder text, token bigint, since bigint, epoch bigint, resources text[], limits bigint[], weights bigint[]
);

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
    renewal celery_semaphore.v1_renewal;
    wanted text[] := celery_semaphore.v1_resources_of(_permits);
BEGIN
    IF NOT _waits THEN
        wanted := celery_semaphore.v1_lock_free(wanted);
    END IF;
    m := celery_semaphore.v1_enter(
        CASE WHEN _waits THEN wanted ELSE '{}' END, _call);
    epoch := m.epoch;
    FOR renewal IN SELECT * FROM jsonb_populate_recordset(NULL::celery_semaphore.v1_renewal, _permits) LOOP
        IF renewal.resources <@ wanted THEN
            became := became || celery_semaphore.v1_renew_one(renewal, m);
        ELSE
            became := became || 'busy'::text;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION celery_semaphore.v1_renew_one(
    _p celery_semaphore.v1_renewal, _m celery_semaphore.v1_moment
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    mine celery_semaphore.v1_held;
    ats celery_semaphore.v1_resource[];
    in_force bigint[];
    restored bool[] := array_fill(false, ARRAY[cardinality(_p.resources)]);
    given_to text; -- the grant of this permit, if the store lost only its take-up: a replica lags
BEGIN
    FOR n IN 1..cardinality(_p.resources) LOOP
        ats[n] := celery_semaphore.v1_reap_and_read(_p.resources[n], _p.holder, _m);
    END LOOP;
    in_force := celery_semaphore.v1_limits_of_living(ats, _p.limits);
    mine := celery_semaphore.v1_find_permit(_p.holder, _p.resources, in_force, _p.weights, _m);
    IF NOT mine.whole THEN
        SELECT p.holder INTO given_to FROM celery_semaphore.permit AS p
        WHERE p.resource = _p.resources[1] AND p.holder IS NOT NULL AND p.granted AND p.token = _p.token LIMIT 1;
        IF NOT celery_semaphore.v1_may_restore(_p.epoch, ats, ARRAY[_p.holder, given_to], in_force, _p.weights, _m) THEN
            IF mine.part THEN
                PERFORM celery_semaphore.v1_end_partial_permit(_p.holder, _p.resources, _m);
            END IF;
            RETURN 'lost';
        END IF;
    END IF;
    IF _m.permits_ended_by < _m.grace_until + _m.slowest THEN -- A21
        FOR n IN 1..cardinality(_p.resources) LOOP
            restored[n] := NOT EXISTS (
                SELECT FROM celery_semaphore.permit AS p
                WHERE p.resource = _p.resources[n] AND p.holder IN (_p.holder, given_to) AND NOT p.restored);
        END LOOP;
    END IF;
    IF given_to IS NOT NULL THEN
        PERFORM celery_semaphore.v1_end_grant(given_to, _p.resources, _m.now);
        FOR n IN 1..cardinality(_p.resources) LOOP
            ats[n] := celery_semaphore.v1_read(_p.resources[n], _p.holder, _m);
        END LOOP;
    END IF;
    FOR n IN 1..cardinality(_p.resources) LOOP
        PERFORM celery_semaphore.v1_write_permit(
            ats[n], _p.holder, _p.weights[n], _p.token, _p.since, _m.now + _m.lease, _m.epoch,
            _restored => restored[n]);
        PERFORM celery_semaphore.v1_mark_in_use(_p.resources[n], _m.now + _m.lease);
    END LOOP;
    RETURN CASE WHEN mine.whole THEN 'ok' ELSE 'restored' END;
END $$;

-- End a grant that became the holder's permit, or is over, and its wait.
CREATE FUNCTION celery_semaphore.v1_end_grant(_grant text, _resources text[], _now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM celery_semaphore.v1_free_rows(_grant, _resources, _now);
    PERFORM celery_semaphore.v1_delete_wait(celery_semaphore.v1_nonce_of_grant(_grant), _resources);
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
