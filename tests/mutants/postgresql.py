"""Wrong ideas about PostgreSQL: what its functions alone rely on. The rest is as in lua.py."""

from __future__ import annotations

from .mutant import Mutant

CONFORMANCE = ("tests/stores/test_conformance.py::TestPostgresStore",)
USED = ("tests/stores/test_conformance.py::TestUsedPostgresStore",)
HERE = "tests/stores/postgresql"
FAULTS = f"{HERE}/test_faults.py"
RESTARTS = (f"{FAULTS}::TestRestarts", "-k", "not embedded")
SETTINGS = (f"{FAULTS}::TestOthersSettings", "-k", "not embedded")
FORKS = (FAULTS, "-k", "forked and not embedded")
POOLER = (f"{HERE}/test_pgbouncer.py", "-k", "not embedded")
WAITS = (f"{HERE}/test_waits.py", "-k", "not embedded")
GROWTH = (f"{HERE}/test_growth.py", "-k", "not embedded and not slow")
SCHEMA = (f"{HERE}/test_schema.py", "-k", "not embedded")


def postgresql(
    name: str, why: str, file: str, text: str, instead: str, *, tests: tuple[str, ...] = CONFORMANCE
) -> Mutant:
    return Mutant(
        f"postgresql/{name}",
        why,
        f"celery_semaphore/stores/postgresql/{file}",
        text,
        instead,
        tests,
    )


FORMATS = (
    postgresql(
        "most calls need not know of the format",
        "the others would say it",
        "v1/memory.sql",
        " AND _memory.format <= celery_semaphore.v1_format()",
        "",
        tests=USED,
    ),
    postgresql(
        "a newer format is like this one",
        "what is new is only added",
        "v1/memory.sql",
        "IF _found > celery_semaphore.v1_format() THEN",
        "IF false THEN",
    ),
    postgresql(
        "a crash begins the newest format",
        "it is as if the store were new",
        "v1/memory.sql",
        "(SELECT b.format FROM celery_semaphore.epoch_before AS b WHERE b.one), celery_semaphore.v1_format());",
        "celery_semaphore.v1_format());",
    ),
    postgresql(
        "operators may set limits in any format",
        "a limit is a number",
        "v1/view.sql",
        "    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;\n",
        "",
    ),
    postgresql(
        "due resources are claimed in any format",
        "whoever claims them finds them too new, and others look a second later",
        "v1/reap.sql",
        "    PERFORM celery_semaphore.v1_check_format(b.format) FROM celery_semaphore.epoch_before AS b;\n",
        "",
    ),
    postgresql(
        "in a newer format a ticket is given up with its grant",
        "a release is a release",
        "v1/newer.sql",
        " AND p.holder = _holder\n        RETURNING",
        " AND p.holder IN (\n"
        "            _holder, celery_semaphore.v1_grant_of((celery_semaphore.v1_parsed(_holder)).nonce))\n"
        "        RETURNING",
    ),
    postgresql(
        "in a newer format what was given back is found by and by",
        "newer workers look at everything now and then",
        "v1/newer.sql",
        "        PERFORM celery_semaphore.v1_use(home, now);\n",
        "",
    ),
    postgresql(
        "in a newer format a new epoch confirms what is renewed",
        "it is there, after all",
        "v1/newer.sql",
        "ON e.id = p.epoch;",
        "ON e.one;",
    ),
    postgresql(
        "in a newer format a dead permit is renewed",
        "it was not dropped yet",
        "v1/newer.sql",
        " AND p.holder = _holder AND p.ends > _now\n",
        " AND p.holder = _holder\n",
    ),
)

_GRANTS = """ SELECT '%grant.' || _nonce $$;

CREATE FUNCTION celery_semaphore.v1_nonce_of(_grant text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT substr(_grant, 8) $$;
"""

MUTANTS = (
    *FORMATS,
    postgresql(
        "any isolation will do",
        "under REPEATABLE READ the snapshot is older than the lock",
        "v1/memory.sql",
        "IF current_setting('transaction_isolation') <> 'read committed' THEN",
        "IF false THEN",
        tests=SETTINGS,
    ),
    postgresql(
        "no lock",
        "rows are locked when they are updated anyway",
        "v1/memory.sql",
        "ELSE pg_advisory_xact_lock(celery_semaphore.v1_key(_name)) IS NOT NULL",
        "ELSE true",
        tests=SETTINGS,
    ),
    postgresql(
        "no lock but for most calls",
        "the others are rare",
        "v1/memory.sql",
        "PERFORM pg_advisory_xact_lock(keys.key) FROM (",
        "PERFORM keys.key FROM (",
        tests=SETTINGS,
    ),
    postgresql(
        "any isolation will do for most calls",
        "the others would say it",
        "v1/memory.sql",
        "WHEN current_setting('transaction_isolation') <> 'read committed' THEN false",
        "WHEN false THEN false",
        tests=SETTINGS,
    ),
    postgresql(
        "who waits for the lock of one waits for ever",
        "it is soon free",
        "v1/memory.sql",
        "WHEN set_config('lock_timeout', _patience::text, true) IS NULL THEN false",
        "",
        tests=SETTINGS,
    ),
    postgresql(
        "most calls may set for the session",
        "behind a pooler it is another client's",
        "v1/memory.sql",
        "WHEN set_config('synchronous_commit', 'off', true) IS NULL",
        "WHEN set_config('synchronous_commit', 'off', false) IS NULL",
        tests=POOLER,
    ),
    postgresql(
        "most calls need not know of a restart",
        "the next of the others does",
        "v1/memory.sql",
        "    SELECT _memory.started = pg_postmaster_start_time() AND ",
        "    SELECT ",
        tests=RESTARTS,
    ),
    postgresql(
        "most calls need not wait for the living",
        "a free place is free",
        "v1/memory.sql",
        "\n        AND _memory.grace_until <= _now",
        "",
        tests=USED,
    ),
    postgresql(
        "most calls need not tell what they know",
        "the memory is there",
        "v1/memory.sql",
        " AND _memory.id = coalesce(_known, _memory.id)",
        "",
        tests=USED,
    ),
    postgresql(
        "who asks is new",
        "an answer that is lost is asked for again",
        "v1/acquire.sql",
        " AND held.mine IS NOT TRUE",
        "",
        tests=USED,
    ),
    postgresql(
        "the declared limit is in force",
        "an operator set another",
        "v1/acquire.sql",
        "_a.weights[1] <= coalesce(at.operator, at.declared) THEN",
        "_a.weights[1] <= at.declared THEN",
        tests=USED,
    ),
    postgresql(
        "a limit for all keys goes first",
        "an operator knows best",
        "v1/acquire.sql",
        "ORDER BY l.name DESC",
        "ORDER BY l.name",
        tests=USED,
    ),
    postgresql(
        "a key has no limit of its own",
        "its semaphore has one",
        "v1/acquire.sql",
        "l.name IN (home, split_part(home, '/', 1))",
        "l.name = split_part(home, '/', 1)",
        tests=USED,
    ),
    postgresql(
        "a row is as it was",
        "a grant was there",
        "v1/acquire.sql",
        " granted = false, urgency = NULL, place = NULL, weight",
        " urgency = NULL, place = NULL, weight",
        tests=USED,
    ),
    postgresql(
        "where there is room a ticket does not matter",
        "a permit was handed to it",
        "v1/acquire.sql",
        "IF _ticket = '' THEN",
        "IF true THEN",
        tests=USED,
    ),
    postgresql(
        "where there is room no message matters",
        "its copies are on their way",
        "v1/acquire.sql",
        " AND _message IS NULL AND celery",
        " AND celery",
        tests=USED,
    ),
    postgresql(
        "one resource is enough to ask",
        "a task may need several",
        "v1/acquire.sql",
        "cardinality(_resources) = 1",
        "true",
        tests=USED,
    ),
    postgresql(
        "one resource is enough to give back",
        "a task may have several",
        "v1/release.sql",
        "cardinality(_resources) = 1",
        "true",
        tests=USED,
    ),
    postgresql(
        "where nobody waits it does not matter that a message ran",
        "its copies are on their way",
        "v1/release.sql",
        " AND _message IS NULL AND",
        " AND",
        tests=USED,
    ),
    postgresql(
        "a grant was held",
        "the mean grows by what nobody held",
        "v1/release.sql",
        " AND p.holder = _holder AND p.ends",
        " AND p.holder IN (\n"
        "            _holder, celery_semaphore.v1_grant_of((celery_semaphore.v1_parsed(_holder)).nonce)) AND p.ends",
        tests=USED,
    ),
    postgresql(
        "others forget the released",
        "nobody may: a table grows for ever",
        "v1/release_else.sql",
        "        PERFORM celery_semaphore.v1_forget_released(m.now);\n",
        "        NULL;\n",
        tests=GROWTH,
    ),
    postgresql(
        "where there is room nothing is declared",
        "the newest declaration decides for others too",
        "v1/acquire.sql",
        "r.declared = _a.limits[1] AND r.look",
        "r.look",
        tests=USED,
    ),
    postgresql(
        "a resource that idled is looked at in time",
        "it is not looked at for ten leases",
        "v1/acquire.sql",
        " AND r.look + 0 <= _now + _lease -- not by the index on look; later if the clock stepped back\n",
        "\n",
        tests=GROWTH,
    ),
    postgresql(
        "a free place is anybody's",
        "somebody waits for it",
        "v1/acquire.sql",
        "IF at.waits OR at.free",
        "IF at.free",
        tests=USED,
    ),
    postgresql(
        "who was released does not ask",
        "its call was on its way",
        "v1/acquire.sql",
        "        WHERE d.holder = celery_semaphore.v1_digest(home, _a.holder) AND d.until + 0 > _now"
        " -- not by the index on until\n    ) IS NULL\n    AND (SELECT",
        "        WHERE false\n    ) IS NULL\n    AND (SELECT",
        tests=USED,
    ),
    postgresql(
        "a first message has no history",
        "a task id is used again",
        "v1/acquire.sql",
        " AND s.task = _a.task) IS NULL",
        " AND false) IS NULL",
        tests=USED,
    ),
    postgresql(
        "the clock makes the tokens",
        "it may go back",
        "v1/acquire.sql",
        "greatest(_now, at.token + 1)",
        "_now",
        tests=USED,
    ),
    postgresql(
        "what is given back is free",
        "somebody waits for it",
        "v1/release.sql",
        "\n        AND (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = home LIMIT 1) IS NULL",
        "",
        tests=USED,
    ),
    postgresql(
        "one whose lease ended held until now",
        "the mean grows by what nobody held",
        "v1/release.sql",
        " AND p.ends > now",
        "",
        tests=USED,
    ),
    postgresql(
        "who gave its permit back is done",
        "its call may still be on its way",
        "v1/release.sql",
        "            done := celery_semaphore.v1_bury(home, _holder, now + _lease);\n",
        "",
        tests=USED,
    ),
    postgresql(
        "a quiet resource learns nothing",
        "nobody waits there",
        "v1/release.sql",
        "            done := celery_semaphore.v1_learn(home, held_for, false);\n",
        "",
        tests=USED,
    ),
    postgresql(
        "the released are forgotten by who reaps",
        "nobody may: a table grows for ever",
        "v1/release.sql",
        "                done := celery_semaphore.v1_forget_released(now);\n",
        "                NULL;\n",
        tests=GROWTH,
    ),
    postgresql(
        "what is parked is as durable as the server likes",
        "synchronous_commit is off there",
        "v1/memory.sql",
        "ELSIF current_setting('synchronous_commit') = 'off' THEN",
        "ELSIF false THEN",
        tests=RESTARTS,
    ),
    postgresql(
        "a new memory need not wait for the disk",
        "a crash forgets that there ever was one",
        "v1/memory.sql",
        "PERFORM set_config('synchronous_commit', 'local', true)",
        "PERFORM set_config('synchronous_commit', 'off', true)",
        tests=RESTARTS,
    ),
    postgresql(
        "only an empty table tells of a restart",
        "a server that was stopped politely keeps it, but nobody could renew",
        "v1/memory.sql",
        " OR memory.started <> pg_postmaster_start_time()",
        "",
        tests=RESTARTS,
    ),
    postgresql(
        "no grace after a crash",
        "what was committed last is lost",
        "v1/memory.sql",
        "recovered bigint := _now + _lease * 2 / 3;",
        "recovered bigint := _now;",
        tests=RESTARTS,
    ),
    postgresql(
        "who waits for a lock waits for ever",
        "the client gave up, and its call is carried out later",
        "v1/memory.sql",
        "    asked := set_config('lock_timeout', _patience::text, true);\n",
        "",
        tests=SETTINGS,
    ),
    postgresql(
        "a setting for the session",
        "behind a pooler it is another client's",
        "v1/memory.sql",
        "asked := set_config('synchronous_commit', 'off', true)",
        "asked := set_config('synchronous_commit', 'off', false)",
        tests=POOLER,
    ),
    postgresql(
        "installing needs no lock",
        "eight workers do it at once",
        "schema.py",
        '    connection.query(lock, [place.named("")])\n',
        "",
        tests=SCHEMA,
    ),
    postgresql(
        "a forked child may close what it inherited",
        "its farewell ends the parent's session",
        "connection.py",
        "if self._pid == os.getpid():  # else its end would be the end of the parent's session",
        "if True:",
        tests=FORKS,
    ),
    postgresql(
        "who would not wait at all is late at once",
        "no time is left",
        "v1/acquire_else.sql",
        "            AND (_a.ticket).place < _m.now\n",
        "",
    ),
    postgresql(
        "only the first of many is seen",
        "each call asks for one",
        "v1/view.sql",
        "    FOREACH home IN ARRAY _names LOOP\n",
        "    FOREACH home IN ARRAY _names[:1] LOOP\n",
    ),
    postgresql(
        "a ticket never changes",
        "its task brings it along",
        "v1/acquire_else.sql",
        "        a.ticket := known;\n",
        "",
    ),
    postgresql(
        "whoever attaches knows the ticket",
        "it was made a moment ago",
        "v1/outbox.sql",
        "    ticket := coalesce(celery_semaphore.v1_known(ticket.nonce, _resources), ticket);\n",
        "",
        tests=WAITS,
    ),
    postgresql(
        "a grant for another weight is a grant",
        "its ticket is the same",
        "v1/outbox.sql",
        "    granted := given.whole;\n",
        "    granted := given.part;\n",
    ),
    postgresql(
        "another ticket is an earlier task's",
        "a wait has one ticket only",
        "v1/acquire_else.sql",
        "(celery_semaphore.v1_parsed(said.ticket)).nonce <> (a.ticket).nonce",
        "nullif(said.ticket, '') <> nullif(_ticket, '')",
    ),
    postgresql(
        "a grant has the name of the holder that made its ticket",
        "the nonce is unique; but the same delivery may come back as that holder",
        "v1/ticket.sql",
        _GRANTS,
        _GRANTS.replace("%grant.", "").replace("8", "1"),
        tests=WAITS,
    ),
    postgresql(
        "no holder is named like a grant",
        "a task's id may be anything",
        "v1/ticket.sql",
        _GRANTS,
        _GRANTS.replace("%grant.", "grant.").replace("8", "7"),
        tests=WAITS,
    ),
    postgresql(
        "a moved head has the newest claims",
        "it was refused there since; its message is there",
        "v1/hand_on.sql",
        """    DELETE FROM celery_semaphore.waiter AS w WHERE w.id = _head.id AND (
        SELECT true FROM celery_semaphore.waiter AS there
        WHERE there.id = celery_semaphore.v1_digest(_head.resources[_n], _head.nonce));
""",
        """    DELETE FROM celery_semaphore.waiter AS w
    WHERE w.id = celery_semaphore.v1_digest(_head.resources[_n], _head.nonce);
""",
    ),
    postgresql(
        "most calls need not look for a grant",
        "nobody waits there; but its message may be on its way",
        "v1/acquire.sql",
        " OR p.granted AND p.holder = celery_semaphore.v1_grant_of(_a.holder)",
        "",
        tests=WAITS,
    ),
    postgresql(
        "only who waits is known",
        "what was granted and sent stands in no line; but it has its priority",
        "v1/line.sql",
        "WHERE p.resource = home AND p.holder = celery_semaphore.v1_grant_of(_nonce);",
        "WHERE false;",
        tests=WAITS,
    ),
    postgresql(
        "any line says how urgent a wait is",
        "it is one wait; but it was promoted where its message lies, and would be behind itself",
        "v1/line.sql",
        "        IF FOUND AND (first IS NULL OR found_here < first) THEN\n"
        "            first := found_here;\n"
        "        END IF;\n        SELECT p",
        "        IF FOUND THEN\n            first := found_here;\n        END IF;\n        SELECT p",
    ),
    postgresql(
        "a holder that is released leaves no grant",
        "it made the ticket; but its message is on its way",
        "v1/release_else.sql",
        "    gone bool := _parked;\n",
        "    gone bool := true;\n",
        tests=WAITS,
    ),
    postgresql(
        "a holder that is released leaves no message",
        "it made the ticket; but the message waits on its own",
        "v1/release_else.sql",
        " AND (_parked OR w.payload IS NULL)",
        "",
        tests=WAITS,
    ),
    postgresql(
        "only what is in the store can be promoted",
        "nothing is granted to the others",
        "v1/outbox.sql",
        "    AND w.line IN ('p', 'w', 'a');\n",
        "    AND w.line IN ('p', 'a');\n",
    ),
    postgresql(
        "what was granted can be promoted",
        "its grant may lapse",
        "v1/outbox.sql",
        "    AND w.line IN ('p', 'w', 'a');\n",
        "    AND w.line IN ('p', 'w', 'a', 'g');\n",
    ),
    postgresql(
        "who is first now is granted at the next release",
        "nothing was given back",
        "v1/outbox.sql",
        "    RETURN celery_semaphore.v1_outgoing(celery_semaphore.v1_hand_on(ARRAY[_resource], m), m);\n",
        "    RETURN ROW(m.epoch, false, '{}', '{}')::celery_semaphore.v1_handed;\n",
    ),
)
