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

-- Return the holder's name of a grant in `permit`. The nonce alone would not do: it is a holder's name itself, and that
-- delivery may come back and have a permit as well. No other holder has such a name: in those, two digits follow each
-- "%" (see names.py).
CREATE FUNCTION celery_semaphore.v1_grant_name(_nonce text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT '%grant.' || _nonce $$;

CREATE FUNCTION celery_semaphore.v1_nonce_of_grant(_grant text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT substr(_grant, 8) $$;
