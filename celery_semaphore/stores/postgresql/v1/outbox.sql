-- Hand out parked messages that must be sent, and delete those that the broker has.

-- Return the messages that must be sent, each to one caller only. A message that is not sent is returned again later.
-- K4: with a `_broker`, those of other brokers stay.
CREATE FUNCTION celery_semaphore.v1_take(
    _call celery_semaphore.v1_call, _names text[], _most int, _broker text
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
            WHERE w.resource = home AND w.outbox AND (_broker IS NULL OR w.broker IN ('', _broker)) ORDER BY w.urgency, w.place, w.nonce LIMIT _most
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
-- For a wait that ended, `ends` tells this end from a later one. If no worker will take the grants up (`_arrive` is
-- false) they end now, and the next reap hands on.
CREATE FUNCTION celery_semaphore.v1_sent(
    _call celery_semaphore.v1_call, _grants jsonb, _arrive bool
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
            UPDATE celery_semaphore.permit AS p SET ends = CASE WHEN _arrive THEN m.now + m.take_up ELSE m.now END
            WHERE p.resource = home AND p.holder = celery_semaphore.v1_grant_name(sent.nonce) AND p.token = sent.token;
            IF FOUND THEN -- the row stays for as long as its grant
                UPDATE celery_semaphore.waiter AS w SET payload = NULL, name = '', outbox = false, ends = NULL
                WHERE w.id = celery_semaphore.v1_wait_id(sent.nonce) AND w.resource = home;
                IF NOT _arrive THEN
                    PERFORM celery_semaphore.v1_mark_in_use(home, m.now);
                END IF;
            ELSIF sent.token = 0 THEN
                DELETE FROM celery_semaphore.waiter AS w
                WHERE w.id = celery_semaphore.v1_wait_id(sent.nonce) AND w.resource = home
                AND w.state = 'ended' AND w.ends = sent.ends;
            END IF;
        END LOOP;
    END LOOP;
    RETURN m.epoch;
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
