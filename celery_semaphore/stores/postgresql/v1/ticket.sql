-- A ticket names one wait, across all its deliveries. Its nonce is its key and never changes. Its place is the time
-- when it began. Its urgency is 255 - priority, and an operator may change it. These fields give the order in line.

CREATE TYPE celery_semaphore.v1_ticket AS (urgency smallint, place bigint, nonce text COLLATE "C");

-- Return the text of a ticket outside of the store, with the urgency that it has at this moment.
CREATE FUNCTION celery_semaphore.v1_format_ticket(_ticket celery_semaphore.v1_ticket) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT lpad(_ticket.urgency::text, 3, '0') || '.' || lpad(_ticket.place::text, 16, '0') || '.' || _ticket.nonce
$$;

-- Parse the text of a ticket; return null if it is none.
CREATE FUNCTION celery_semaphore.v1_parse_ticket(_text text) RETURNS celery_semaphore.v1_ticket
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _text ~ '^[0-9]{3}\.[0-9]{16}\..' THEN -- not WHERE: a planner may compute the fields before it
        ROW(left(_text, 3)::smallint, substr(_text, 5, 16)::bigint, substr(_text, 22))::celery_semaphore.v1_ticket
    END
$$;

CREATE FUNCTION celery_semaphore.v1_ticket_of(_waiter celery_semaphore.waiter) RETURNS celery_semaphore.v1_ticket
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(_waiter.urgency, _waiter.place, _waiter.nonce)::celery_semaphore.v1_ticket
$$;

-- Return the id of the task that a nonce names: all before its last colon; empty if there is none.
CREATE FUNCTION celery_semaphore.v1_task_of(_nonce text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT left(_nonce, length(_nonce) - strpos(reverse(_nonce) || ':', ':')) $$;

-- Return the smallest key that a wait of this task can have in `waiter`: a digest of 16 bits, followed by 48 zeros.
CREATE FUNCTION celery_semaphore.v1_first_id(_task text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(_task, 0) & -281474976710656 $$;

CREATE FUNCTION celery_semaphore.v1_last_id(_task text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(_task, 0) | 281474976710655 $$;

-- Return the key of a wait in `waiter`: a digest of its task, so that the waits of one task are found by a range of the
-- primary key, then 48 bits of a digest of the nonce. A call's task is its process; of ten thousand calls that wait in
-- one process, two have the same key with a probability of 2e-7.
CREATE FUNCTION celery_semaphore.v1_wait_id(_nonce text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT celery_semaphore.v1_first_id(celery_semaphore.v1_task_of(_nonce))
        | (hashtextextended(_nonce, 0) & 281474976710655)
$$;

-- A19: return the claims of the wait, as its caller wrote them, if they are others than these; else null, also for an
-- unknown wait. Claims are the same with the same resources and weights, in any order. A wait with the same ones stands
-- at a resource that the call has locked.
CREATE FUNCTION celery_semaphore.v1_other_claims(
    _wait celery_semaphore.waiter, _resources text[], _weights bigint[]
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF _wait.resources = _resources AND _wait.weights = _weights OR cardinality(_wait.resources) = cardinality(
        _resources) AND NOT EXISTS (
            SELECT * FROM unnest(_wait.resources, _wait.weights)
            EXCEPT SELECT * FROM unnest(_resources, _weights))
    THEN
        RETURN NULL;
    END IF;
    RETURN _wait.claims;
END $$;

-- A19: raise an error with the claims of the wait, and its ticket, if they are others than these; it is rolled back.
-- `_tries`: how often another call has put the wait into another line since this one looked. If it is gone again, the
-- caller may try once more.
CREATE FUNCTION celery_semaphore.v1_check_claims(
    _nonce text, _resources text[], _weights bigint[], _tries int DEFAULT 0
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    known celery_semaphore.waiter;
    others text;
BEGIN
    SELECT * INTO known FROM celery_semaphore.waiter AS w WHERE w.id = celery_semaphore.v1_wait_id(_nonce);
    others := celery_semaphore.v1_other_claims(known, _resources, _weights);
    IF others IS NOT NULL THEN
        RAISE EXCEPTION '%', others USING
            ERRCODE = 'CS004', DETAIL = celery_semaphore.v1_format_ticket(celery_semaphore.v1_ticket_of(known));
    ELSIF _tries > 1 THEN
        RAISE EXCEPTION 'another call had the wait of this ticket' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

-- Return the holder's name of a grant in `permit`. The nonce alone would not do: it is a holder's name itself, and that
-- delivery may come back and have a permit as well. No other holder has such a name: in those, two digits follow each
-- "%" (see names.py).
CREATE FUNCTION celery_semaphore.v1_grant_name(_nonce text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT '%grant.' || _nonce $$;

CREATE FUNCTION celery_semaphore.v1_nonce_of_grant(_grant text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT substr(_grant, 8) $$;
