-- Find the overdue resources, and reap them.

-- Claim overdue resources for the caller, so that workers that call at the same moment get different ones. The claim
-- ends after a second, since the caller may die before it reaps. Resources that another call has locked are skipped:
-- that call may be stuck for long, and would delay the reaping of all others.
--
-- After the clock stepped back, a resource counts as overdue if its time is further ahead than it can be. The furthest
-- is that of an idle resource, ten leases after its last use.
CREATE FUNCTION celery_semaphore.v1_overdue(
    _call celery_semaphore.v1_call, _most int, _process text
) RETURNS text[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    now bigint;
    names text[];
    asked text;
BEGIN
    PERFORM celery_semaphore.v1_need_read_committed();
    PERFORM celery_semaphore.v1_check_call(_call);
    asked := set_config('synchronous_commit', 'off', true);
    now := celery_semaphore.v1_now(_call.clock);
    PERFORM celery_semaphore.v1_note_call(e, now) FROM celery_semaphore.epoch AS e WHERE e.one; -- A17
    PERFORM celery_semaphore.v1_note_process(_process, now, _call.lease);
    names := ARRAY(
        SELECT r.name FROM celery_semaphore.resource AS r
        WHERE r.reap_at <= now AND pg_try_advisory_xact_lock(celery_semaphore.v1_lock_key(r.name))
        ORDER BY r.reap_at LIMIT _most FOR UPDATE SKIP LOCKED);
    IF cardinality(names) < _most THEN
        names := names || ARRAY(
            SELECT r.name FROM celery_semaphore.resource AS r WHERE r.reap_at > now + 13 * _call.lease
            AND pg_try_advisory_xact_lock(celery_semaphore.v1_lock_key(r.name))
            ORDER BY r.reap_at LIMIT _most - cardinality(names) FOR UPDATE SKIP LOCKED);
    END IF;
    UPDATE celery_semaphore.resource AS r SET reap_at = now + 1000000 WHERE r.name = ANY (names);
    RETURN names;
END $$;

-- End what is overdue in these resources, and hand on what is free.
CREATE FUNCTION celery_semaphore.v1_reap(
    _call celery_semaphore.v1_call, _names text[]
) RETURNS celery_semaphore.v1_handed
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    m celery_semaphore.v1_moment;
    handed celery_semaphore.v1_handed;
    home text;
BEGIN
    m := celery_semaphore.v1_enter(_names, _call);
    FOREACH home IN ARRAY _names LOOP
        PERFORM celery_semaphore.v1_reap_and_read(home, NULL, m);
        -- E5: a wait that is set aside never comes to the head, where a wait that is not reachable is noticed
        IF NOT m.in_grace THEN
            PERFORM celery_semaphore.v1_put_set_aside_in_transit(home, m);
        END IF;
    END LOOP;
    handed := celery_semaphore.v1_hand_on(_names, m);
    FOREACH home IN ARRAY _names LOOP
        PERFORM celery_semaphore.v1_set_next_reap(
            home,
            handed.again OR handed.needed <> '{}' OR home = ANY (handed.outgoing)
                OR NOT celery_semaphore.v1_has_room((celery_semaphore.v1_head(home)).session), -- H11
            m);
    END LOOP;
    PERFORM celery_semaphore.v1_delete_tombstones(m.now);
    DELETE FROM celery_semaphore.message AS s WHERE s.ctid = ANY (ARRAY(
        SELECT old.ctid FROM celery_semaphore.message AS old
        WHERE old.until <= m.now ORDER BY old.until LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
    RETURN handed;
END $$;

-- Note when the resource must be reaped next; `_soon`: at once, for there is more to do. A resource that was not used
-- for ten leases is deleted.
CREATE FUNCTION celery_semaphore.v1_set_next_reap(
    _name text, _soon bool, _m celery_semaphore.v1_moment
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    at celery_semaphore.v1_resource := celery_semaphore.v1_read(_name, NULL, _m);
    next bigint := least(
        -- A sweep that finds again and again what is over and stays finds no others.
        (SELECT min(CASE WHEN p.ends > _m.now THEN p.ends ELSE greatest(p.ends, _m.spared_until) END)
            FROM celery_semaphore.permit AS p WHERE p.resource = _name AND p.holder IS NOT NULL),
        celery_semaphore.v1_next_wait_end(_name),
        (SELECT min(room.ends) FROM unnest(at.kept) AS room), -- H12
        CASE WHEN _m.in_grace THEN _m.grace_until END,
        celery_semaphore.v1_rises_at(_name, _m), -- O3
        _m.now + _m.lease);
BEGIN
    IF at.occupied = 0 AND NOT at.waits AND at.kept IS NULL THEN
        IF at.rows = 0 THEN -- it has only refused so far: a free row keeps the time
            PERFORM celery_semaphore.v1_write_permit(at, NULL, 1, 0, _m.now, _m.now, _m.epoch);
        END IF;
        SELECT greatest(least(max(p.ends), _m.now), least( -- a worker may declare its limit all the time
            (SELECT r.declared_until FROM celery_semaphore.resource AS r WHERE r.name = _name), _m.now
        )) + 10 * _m.lease INTO next
        FROM celery_semaphore.permit AS p WHERE p.resource = _name;
        IF next <= _m.now THEN
            DELETE FROM celery_semaphore.permit AS p WHERE p.resource = _name;
            DELETE FROM celery_semaphore.resource AS r WHERE r.name = _name;
            RETURN;
        END IF;
    END IF;
    UPDATE celery_semaphore.resource AS r SET reap_at = CASE WHEN _soon THEN _m.now ELSE next END WHERE r.name = _name;
END $$;
