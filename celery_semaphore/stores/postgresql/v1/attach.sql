-- Attach its message to a parked wait.

-- The wait of a parked message.
CREATE TYPE celery_semaphore.v1_parked AS (
    ticket text,
    name text, -- of the message; empty: none
    ends_in bigint, -- how long the wait lasts from now on; null: without end
    broker text, -- that the message belongs to; empty: any
    claims text, -- as the caller wrote them
    resources text[], limits bigint[], weights bigint[]
);

-- Attach its message to a parked ticket; from now on it can be granted, perhaps at once. The message is on the disk
-- before the call returns.
CREATE FUNCTION celery_semaphore.v1_attach(
    _call celery_semaphore.v1_call, _parked celery_semaphore.v1_parked, _payload bytea
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment := celery_semaphore.v1_enter(_parked.resources, _call, true);
    ticket celery_semaphore.v1_ticket := celery_semaphore.v1_parse_ticket(_parked.ticket);
    its_grant text := celery_semaphore.v1_grant_name(ticket.nonce);
    home int := 1;
    given celery_semaphore.v1_held;
    stood celery_semaphore.waiter;
    granted bool;
    sends bool;
BEGIN
    PERFORM celery_semaphore.v1_check_claims(ticket.nonce, _parked.resources, _parked.weights); -- A19
    FOR n IN 1..cardinality(_parked.resources) LOOP
        PERFORM celery_semaphore.v1_reap_and_read(_parked.resources[n], NULL, m);
    END LOOP;
    SELECT * INTO stood FROM celery_semaphore.waiter AS w
    WHERE w.id = celery_semaphore.v1_wait_id(ticket.nonce) AND w.resource = ANY (_parked.resources);
    IF FOUND THEN
        home := array_position(_parked.resources, stood.resource);
        ticket := celery_semaphore.v1_ticket_of(stood);
    END IF;
    -- A grant does not count if it ended on one claim.
    given := celery_semaphore.v1_find_permit(its_grant, _parked.resources, _parked.limits, _parked.weights, m);
    granted := given.whole;
    -- E3: the worker that takes the outbox sends it
    sends := granted AND coalesce(stood.session <> '', false);
    IF given.part AND NOT granted THEN
        PERFORM celery_semaphore.v1_free_rows(its_grant, _parked.resources, m.now);
    END IF;
    PERFORM celery_semaphore.v1_store_message(_parked, _payload, ticket, home, granted, sends, m);
    RETURN celery_semaphore.v1_hand_on(_parked.resources, m);
END $$;

-- Write the message into the row of its wait. A ticket that was deleted meanwhile returns to its place: its message
-- must not be lost. `_home` is the number of the resource where it is in line; `_sends`: the message goes into the
-- outbox.
CREATE FUNCTION celery_semaphore.v1_store_message(
    _parked celery_semaphore.v1_parked, _payload bytea, _ticket celery_semaphore.v1_ticket, _home int, _granted bool,
    _sends bool, _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR tries IN 1..2 LOOP
        INSERT INTO celery_semaphore.waiter AS w
            (id, resource, urgency, place, nonce, state, outbox, kind, weight, own_limit, resources, weights, limits,
                claims, due, ends, name, payload, broker)
        VALUES (
            celery_semaphore.v1_wait_id(_ticket.nonce), _parked.resources[_home],
            _ticket.urgency, _ticket.place, _ticket.nonce, CASE WHEN _granted THEN 'granted' ELSE 'in_line' END, _sends,
            'park', _parked.weights[_home], _parked.limits[_home], _parked.resources, _parked.weights, _parked.limits,
            _parked.claims, _m.now, _m.now + _parked.ends_in, _parked.name, _payload, _parked.broker)
        ON CONFLICT (id) DO UPDATE SET
            urgency = excluded.urgency, place = excluded.place, state = excluded.state, kind = excluded.kind,
            weight = excluded.weight, own_limit = excluded.own_limit,
            resources = excluded.resources, weights = excluded.weights, limits = excluded.limits,
            claims = excluded.claims, due = excluded.due, ends = excluded.ends, name = excluded.name,
            payload = excluded.payload, broker = excluded.broker, outbox = _sends OR w.outbox AND _granted,
            session = excluded.session, keeps = excluded.keeps -- no session: it is always reachable
        WHERE w.resource = excluded.resource;
        EXIT WHEN FOUND;
        PERFORM celery_semaphore.v1_check_claims(_ticket.nonce, _parked.resources, _parked.weights, tries);
    END LOOP;
    IF _sends THEN
        UPDATE celery_semaphore.permit AS p SET ends = _m.now + _m.take_up
        WHERE p.resource = ANY (_parked.resources) AND p.holder = celery_semaphore.v1_grant_name(_ticket.nonce);
        PERFORM celery_semaphore.v1_mark_in_use(_parked.resources[_home], _m.now);
    END IF;
    PERFORM celery_semaphore.v1_mark_in_use(
        _parked.resources[_home], _m.now + least(_m.lease, coalesce(_parked.ends_in, _m.lease)));
END $$;
