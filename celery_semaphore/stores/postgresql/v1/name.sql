-- E6: put the waits that a session holds back into line, unless another message of them was refused since: rows N1 to
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
            _session, awake, (celery_semaphore.v1_parse_ticket(held.ticket)).nonce, held.resources, m);
        IF standings[cardinality(standings)] IS NULL THEN -- N1
            -- Delete an overdue grant now: its end would put this wait in transit (E7).
            PERFORM celery_semaphore.v1_free_rows(
                celery_semaphore.v1_grant_name((celery_semaphore.v1_parse_ticket(held.ticket)).nonce),
                held.resources, m.now);
            INSERT INTO celery_semaphore.waiter
                (id, resource, urgency, place, nonce, state, outbox, kind, weight, own_limit, resources, weights,
                    limits,
                 claims, due, ends, name, session, epoch, keeps)
            SELECT
                celery_semaphore.v1_digest(held.resources[1], t.nonce), held.resources[1], t.urgency, t.place, t.nonce,
                CASE WHEN awake THEN 'in_line' ELSE 'in_transit' END, false, held.kind, held.weights[1], held.limits[1],
                held.resources, held.weights, held.limits, held.claims,
                m.now, CASE WHEN NOT awake THEN m.now + greatest(m.lease, held.keeps) END, '', _session, m.epoch,
                held.keeps
            FROM celery_semaphore.v1_parse_ticket(held.ticket) AS t;
            PERFORM celery_semaphore.v1_mark_in_use(held.resources[1], m.now);
            standings[cardinality(standings)] := 'waits';
        END IF;
    END LOOP;
END $$;

-- Return where a wait is. If it has a row: 'elsewhere' for a wait of another session (N4), else 'waits' (N3); one in
-- transit, or with a grant that has ended, is put back into line (N2). If it has none: 'elsewhere' if its message was
-- sent with a grant (N4), else null.
CREATE FUNCTION celery_semaphore.v1_standing(
    _session text, _awake bool, _nonce text, _resources text[], _m celery_semaphore.v1_moment
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found_here celery_semaphore.waiter;
BEGIN
    FOR n IN REVERSE cardinality(_resources)..1 LOOP
        SELECT * INTO found_here FROM celery_semaphore.waiter AS w
        WHERE w.id = celery_semaphore.v1_digest(_resources[n], _nonce);
        CONTINUE WHEN NOT FOUND;
        IF found_here.session <> _session THEN
            RETURN 'elsewhere';
        ELSIF NOT celery_semaphore.v1_may_stay(found_here, _m) THEN
            -- As E7, which ends the grants of the other claims.
            PERFORM celery_semaphore.v1_free_rows(celery_semaphore.v1_grant_name(_nonce), _resources[n:n], _m.now);
            UPDATE celery_semaphore.waiter AS w
            SET epoch = _m.epoch, state = CASE WHEN _awake THEN 'in_line' ELSE 'in_transit' END,
                due = CASE WHEN _awake THEN w.due ELSE _m.now END,
                ends = CASE WHEN NOT _awake THEN _m.now + greatest(_m.lease, w.keeps) END
            WHERE w.id = found_here.id;
            PERFORM celery_semaphore.v1_mark_in_use(_resources[n], _m.now);
        END IF;
        RETURN 'waits';
    END LOOP;
    PERFORM 1 FROM celery_semaphore.permit AS p
    WHERE p.resource = ANY (_resources) AND p.holder = celery_semaphore.v1_grant_name(_nonce)
    AND (p.ends > _m.now OR _m.in_grace);
    IF FOUND THEN
        RETURN 'elsewhere'; -- its message was sent
    END IF;
    RETURN NULL;
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
