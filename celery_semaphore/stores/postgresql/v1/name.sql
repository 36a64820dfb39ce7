-- E6: put the waits that a session owns back into line, unless another message of them was refused since: rows N1 to
-- N4 of docs/maintain/architecture.md. The next reaper hands on.
--   waits  [{"ticket", "kind", "keeps", "claims", "resources": [...], "limits": [...], "weights": [...]}...]
-- Return 'waits' or 'elsewhere' for each, in order.
CREATE FUNCTION celery_semaphore.v1_name(
    _call celery_semaphore.v1_call, _session text, _waits jsonb,
    OUT epoch bigint, OUT standings text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    awake bool;
    held record;
BEGIN
    m := celery_semaphore.v1_enter(celery_semaphore.v1_resources_of(_waits), _call);
    epoch := m.epoch;
    awake := celery_semaphore.v1_is_awake(_session, m);
    FOR held IN
        SELECT * FROM jsonb_to_recordset(_waits) AS w (
            ticket text, kind text, keeps bigint, claims text, resources text[], limits bigint[], weights bigint[])
    LOOP
        standings := standings || celery_semaphore.v1_standing(
            _session, awake, (celery_semaphore.v1_parse_ticket(held.ticket)).nonce, held.resources, held.weights, m);
        IF standings[cardinality(standings)] IS NULL THEN -- N1
            -- Delete an overdue grant now: its end would put this wait in transit (E7).
            PERFORM celery_semaphore.v1_end_grant(
                celery_semaphore.v1_grant_name((celery_semaphore.v1_parse_ticket(held.ticket)).nonce),
                held.resources, m.now);
            INSERT INTO celery_semaphore.waiter
                (id, resource, urgency, place, nonce, state, outbox, kind, weight, own_limit, resources, weights,
                    limits,
                 claims, due, ends, name, session, epoch, keeps)
            SELECT
                celery_semaphore.v1_wait_id(t.nonce), held.resources[1], t.urgency, t.place, t.nonce,
                CASE WHEN awake THEN 'in_line' ELSE 'in_transit' END, false, held.kind, held.weights[1], held.limits[1],
                held.resources, held.weights, held.limits, held.claims,
                m.now, CASE WHEN NOT awake THEN m.now + greatest(m.lease, held.keeps) END, '', _session, m.epoch,
                held.keeps
            FROM celery_semaphore.v1_parse_ticket(held.ticket) AS t
            ON CONFLICT (id) DO NOTHING;
            -- Else another call has put it into another line since (N4).
            standings[cardinality(standings)] := CASE WHEN FOUND THEN 'waits' ELSE 'elsewhere' END;
            PERFORM celery_semaphore.v1_mark_in_use(held.resources[1], m.now);
        END IF;
    END LOOP;
END $$;

-- Return where a wait is: 'elsewhere' for one with other claims (A19), of another session, or that was sent (N4), else
-- 'waits' (N3); one in transit, or with a grant that has ended, is put back into line (N2). Return null for an unknown
-- one, and for one that was sent with a grant that is over.
CREATE FUNCTION celery_semaphore.v1_standing(
    _session text, _awake bool, _nonce text, _resources text[], _weights bigint[], _m celery_semaphore.v1_moment
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    known celery_semaphore.waiter;
    may_stay bool;
BEGIN
    SELECT * INTO known FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_wait_id(_nonce);
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF celery_semaphore.v1_other_claims(known, _resources, _weights) IS NOT NULL THEN
        RETURN 'elsewhere';
    END IF;
    may_stay := celery_semaphore.v1_may_stay(known, _m);
    IF known.session = '' AND known.payload IS NULL AND known.state = 'granted' AND NOT may_stay AND NOT _m.in_grace THEN
        RETURN NULL;
    ELSIF known.session <> _session THEN
        RETURN 'elsewhere';
    ELSIF NOT may_stay THEN
        -- As E7, which ends the grants of the other claims.
        PERFORM celery_semaphore.v1_free_rows(
            celery_semaphore.v1_grant_name(_nonce), ARRAY[known.resource], _m.now);
        UPDATE celery_semaphore.waiter AS w
        SET epoch = _m.epoch, state = CASE WHEN _awake THEN 'in_line' ELSE 'in_transit' END,
            due = CASE WHEN _awake THEN w.due ELSE _m.now END,
            ends = CASE WHEN NOT _awake THEN _m.now + greatest(_m.lease, w.keeps) END
        WHERE w.id = known.id;
        PERFORM celery_semaphore.v1_mark_in_use(known.resource, _m.now);
    END IF;
    RETURN 'waits';
END $$;

-- Return whether a wait stands in line and was named in this epoch, or has a grant that lasts.
CREATE FUNCTION celery_semaphore.v1_may_stay(
    _wait celery_semaphore.waiter, _m celery_semaphore.v1_moment
) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF _wait.state <> 'granted' THEN
        RETURN _wait.state <> 'in_transit' AND _wait.epoch = _m.epoch;
    END IF;
    RETURN EXISTS (
        SELECT FROM celery_semaphore.permit AS p
        WHERE p.resource = _wait.resource AND p.holder = celery_semaphore.v1_grant_name(_wait.nonce)
        AND p.ends > _m.now);
END $$;
