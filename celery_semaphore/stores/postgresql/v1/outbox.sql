-- Store parked messages, and hand them out when they must be sent.

-- The wait of a parked message.
CREATE TYPE celery_semaphore.v1_parked AS (
    ticket text,
    name text, -- of the message; empty: none
    ends_in bigint, -- how long the wait lasts from now on; null: without end
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
    found_here celery_semaphore.waiter;
    granted bool;
    sends bool;
BEGIN
    FOR n IN 1..cardinality(_parked.resources) LOOP
        PERFORM celery_semaphore.v1_reap_and_read(_parked.resources[n], NULL, m);
    END LOOP;
    ticket := coalesce(celery_semaphore.v1_stored_ticket(ticket.nonce, _parked.resources), ticket);
    FOR n IN 1..cardinality(_parked.resources) LOOP
        SELECT * INTO found_here FROM celery_semaphore.waiter AS w
        WHERE w.id = celery_semaphore.v1_digest(_parked.resources[n], ticket.nonce);
        IF FOUND THEN
            home := n;
            stood := found_here;
        END IF;
    END LOOP;
    -- A grant does not count if it ended on one claim or has another weight.
    given := celery_semaphore.v1_find_permit(its_grant, _parked.resources, _parked.limits, _parked.weights, m);
    granted := given.whole;
    -- E3: the worker that takes the outbox sends it
    sends := granted AND stood.id IS NOT NULL AND stood.payload IS NULL;
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
    INSERT INTO celery_semaphore.waiter AS w
        (id, resource, urgency, place, nonce, state, outbox, kind, weight, own_limit, resources, weights, limits,
            claims, due, ends, name, payload)
    VALUES (
        celery_semaphore.v1_digest(_parked.resources[_home], _ticket.nonce), _parked.resources[_home],
        _ticket.urgency, _ticket.place, _ticket.nonce, CASE WHEN _granted THEN 'granted' ELSE 'in_line' END, _sends,
        'park', _parked.weights[_home], _parked.limits[_home], _parked.resources, _parked.weights, _parked.limits,
        _parked.claims, _m.now, _m.now + _parked.ends_in, _parked.name, _payload)
    ON CONFLICT (id) DO UPDATE SET
        urgency = excluded.urgency, place = excluded.place, state = excluded.state, kind = excluded.kind,
        weight = excluded.weight, own_limit = excluded.own_limit,
        resources = excluded.resources, weights = excluded.weights, limits = excluded.limits,
        claims = excluded.claims, due = excluded.due, ends = excluded.ends, name = excluded.name,
        payload = excluded.payload, outbox = _sends OR w.outbox AND _granted,
        session = excluded.session, keeps = excluded.keeps; -- no session: it is always reachable
    IF _sends THEN
        UPDATE celery_semaphore.permit AS p SET ends = _m.now + _m.take_up
        WHERE p.resource = ANY (_parked.resources) AND p.holder = celery_semaphore.v1_grant_name(_ticket.nonce);
        PERFORM celery_semaphore.v1_mark_in_use(_parked.resources[_home], _m.now);
    END IF;
    PERFORM celery_semaphore.v1_mark_in_use(
        _parked.resources[_home], _m.now + least(_m.lease, coalesce(_parked.ends_in, _m.lease)));
END $$;

-- Return the messages that must be sent, each to one caller only. A message that is not sent is returned again later.
CREATE FUNCTION celery_semaphore.v1_take(
    _call celery_semaphore.v1_call, _names text[], _most int
) RETURNS TABLE (epoch bigint, ticket text, token bigint, ends bigint, claims text, payload bytea)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    home text;
BEGIN
    m := celery_semaphore.v1_enter(_names, _call);
    FOREACH home IN ARRAY _names LOOP
        RETURN QUERY
        WITH out AS MATERIALIZED (
            SELECT w.id FROM celery_semaphore.waiter AS w
            WHERE w.resource = home AND w.outbox ORDER BY w.urgency, w.place, w.nonce LIMIT _most
        ), taken AS (
            UPDATE celery_semaphore.waiter AS w SET outbox = false
            WHERE w.id = ANY (ARRAY(SELECT out.id FROM out))
            RETURNING w.urgency, w.place, w.nonce, w.ends, w.claims, w.payload
        )
        SELECT m.epoch, celery_semaphore.v1_format_ticket((taken.urgency, taken.place, taken.nonce)),
            coalesce(p.token, 0), coalesce(p.ends, taken.ends), taken.claims, taken.payload
        FROM taken LEFT JOIN celery_semaphore.permit AS p
            ON p.resource = home AND p.holder = celery_semaphore.v1_grant_name(taken.nonce)
        ORDER BY taken.urgency, taken.place, taken.nonce;
    END LOOP;
END $$;

-- E15: delete messages that the broker has, and keep their grants until they are taken up. A ticket may have changed
-- meanwhile, for its message may have been delivered and parked again: such a row stays. The deletion is on the disk
-- before the call returns, or a crash would have the messages sent once more.
--   grants  [{"ticket", "token": 0 without a permit, "ends": from v1_take, "resources": [...]}...]
-- For a wait that ended, `ends` tells this end from a later one.
CREATE FUNCTION celery_semaphore.v1_sent(
    _call celery_semaphore.v1_call, _grants jsonb
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    sent record;
    home text;
BEGIN
    m := celery_semaphore.v1_enter(celery_semaphore.v1_resources_of(_grants), _call, true);
    FOR sent IN
        SELECT (celery_semaphore.v1_parse_ticket(g.ticket)).nonce, g.token, g.ends, g.resources
        FROM jsonb_to_recordset(_grants) AS g (ticket text, token bigint, ends bigint, resources text[])
    LOOP
        FOREACH home IN ARRAY sent.resources LOOP
            UPDATE celery_semaphore.permit AS p SET ends = m.now + m.take_up
            WHERE p.resource = home AND p.holder = celery_semaphore.v1_grant_name(sent.nonce) AND p.token = sent.token;
            IF FOUND THEN
                DELETE FROM celery_semaphore.waiter AS w
                WHERE w.id = celery_semaphore.v1_digest(home, sent.nonce);
            ELSIF sent.token = 0 THEN
                DELETE FROM celery_semaphore.waiter AS w
                WHERE w.id = celery_semaphore.v1_digest(home, sent.nonce) AND w.state = 'ended' AND w.ends = sent.ends;
            END IF;
        END LOOP;
    END LOOP;
    RETURN m.epoch;
END $$;

-- E12: end the waits of parked messages; a granted one goes on, for its message is on its way. `again`: some moved to
-- another resource meanwhile.
CREATE FUNCTION celery_semaphore.v1_end(
    _call celery_semaphore.v1_call, _messages text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    handed celery_semaphore.v1_handed;
    names text[] := ARRAY(
        SELECT DISTINCT w.resource FROM celery_semaphore.waiter AS w
        WHERE w.name = ANY (_messages) AND w.name <> ''
        -- Granted ones, too: v1_reap_and_read puts an overdue one in line.
        AND w.state IN ('in_line', 'set_aside', 'granted'));
    one text;
BEGIN
    m := celery_semaphore.v1_enter(names, _call, true);
    FOREACH one IN ARRAY names LOOP
        PERFORM celery_semaphore.v1_reap_and_read(one, NULL, m);
    END LOOP;
    UPDATE celery_semaphore.waiter AS w SET state = 'ended', outbox = true, ends = m.now + m.take_up
    WHERE w.name = ANY (_messages) AND w.name <> '' AND w.state IN ('in_line', 'set_aside')
    AND array_position(names, w.resource) IS NOT NULL AND w.payload IS NOT NULL;
    handed := celery_semaphore.v1_mark_outgoing(celery_semaphore.v1_hand_on(names, m), m);
    PERFORM 1 FROM celery_semaphore.waiter AS w
    WHERE w.name = ANY (_messages) AND w.name <> '' AND w.state IN ('in_line', 'set_aside') LIMIT 1;
    handed.again := FOUND;
    RETURN handed;
END $$;

-- Move waits before all others in this line, as if they had the highest priority: E11.
CREATE FUNCTION celery_semaphore.v1_promote(
    _call celery_semaphore.v1_call, _resource text, _nonces text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
BEGIN
    m := celery_semaphore.v1_enter(ARRAY[_resource], _call, true);
    PERFORM celery_semaphore.v1_reap_and_read(_resource, NULL, m);
    UPDATE celery_semaphore.waiter AS w SET urgency = 0
    WHERE w.id = ANY (ARRAY(SELECT celery_semaphore.v1_digest(_resource, each.nonce)
        FROM unnest(_nonces) AS each (nonce)))
    AND w.state IN ('in_line', 'in_transit', 'set_aside');
    RETURN celery_semaphore.v1_mark_outgoing(celery_semaphore.v1_hand_on(ARRAY[_resource], m), m);
END $$;

-- Mark the resources with messages to send as overdue: if this caller dies, the next reaper finds them.
CREATE FUNCTION celery_semaphore.v1_mark_outgoing(
    _handed celery_semaphore.v1_handed, _m celery_semaphore.v1_moment
) RETURNS celery_semaphore.v1_handed LANGUAGE plpgsql AS $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY _handed.outgoing LOOP
        PERFORM celery_semaphore.v1_mark_in_use(one, _m.now);
    END LOOP;
    RETURN _handed;
END $$;
