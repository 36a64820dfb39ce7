-- A ticket is one wait, across all its deliveries. Its nonce is its key and never changes. Its place is when it began,
-- and its urgency is 255 - priority, which an operator may change. Tickets stand in line in the order of these fields.

CREATE TYPE celery_semaphore.v1_ticket AS (urgency smallint, place bigint, nonce text COLLATE "C");

-- Outside of the store a ticket is this text, with the urgency that it had when the text was written.
CREATE FUNCTION celery_semaphore.v1_written(_ticket celery_semaphore.v1_ticket) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT lpad(_ticket.urgency::text, 3, '0') || '.' || lpad(_ticket.place::text, 16, '0') || '.' || _ticket.nonce
$$;

-- Null if the text is not that of a ticket.
CREATE FUNCTION celery_semaphore.v1_parsed(_text text) RETURNS celery_semaphore.v1_ticket
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN _text ~ '^[0-9]{3}\.[0-9]{16}\..' THEN -- not WHERE: a planner may compute the fields before it
        ROW(left(_text, 3)::smallint, substr(_text, 5, 16)::bigint, substr(_text, 22))::celery_semaphore.v1_ticket
    END
$$;

CREATE FUNCTION celery_semaphore.v1_ticket_of(_waiter celery_semaphore.waiter) RETURNS celery_semaphore.v1_ticket
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(_waiter.urgency, _waiter.place, _waiter.nonce)::celery_semaphore.v1_ticket
$$;

-- The name in `permit` of what was granted to a wait. The nonce is a holder's name: the same delivery may come back and
-- have a permit beside it. No holder is stored under such a name: in one, two digits follow each "%" (see names.py).
CREATE FUNCTION celery_semaphore.v1_grant_of(_nonce text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT '%grant.' || _nonce $$;

CREATE FUNCTION celery_semaphore.v1_nonce_of(_grant text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT substr(_grant, 8) $$;
