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


MUTANTS = (
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
        tests=USED,
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
        """coalesce((
            SELECT l.value FROM celery_semaphore.set_limit AS l
            WHERE l.name IN (home, split_part(home, '/', 1)) ORDER BY l.name DESC LIMIT 1
        ), _limits[1])""",
        "_limits[1]",
        tests=USED,
    ),
    postgresql(
        "where there is room nothing is declared",
        "the newest declaration decides for others too",
        "v1/acquire.sql",
        " AND r.declared = _limits[1]",
        "",
        tests=USED,
    ),
    postgresql(
        "a resource that idled is looked at in time",
        "it is not looked at for ten leases",
        "v1/acquire.sql",
        " AND r.look <= now + _lease",
        "",
        tests=GROWTH,
    ),
    postgresql(
        "a free place is anybody's",
        "somebody waits for it",
        "v1/acquire.sql",
        "\n        AND (SELECT true FROM celery_semaphore.waiter AS w WHERE w.resource = home LIMIT 1) IS NULL",
        "",
        tests=USED,
    ),
    postgresql(
        "who was released does not ask",
        "its call was on its way",
        "v1/acquire.sql",
        " AND d.until + 0 > now",
        " AND false",
        tests=USED,
    ),
    postgresql(
        "a first message has no history",
        "a task id is used again",
        "v1/acquire.sql",
        " AND s.task = _task",
        " AND false",
        tests=USED,
    ),
    postgresql(
        "the clock makes the tokens",
        "it may go back",
        "v1/acquire.sql",
        "greatest(now, held.last + 1)",
        "now",
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
        "            done := celery_semaphore.v1_learn(home, held_for);\n",
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
        "        asked := set_config('synchronous_commit', 'on', true); --",
        "        --",
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
        "everybody can listen",
        "a pooler tells it to another client, or to nobody",
        "listener.py",
        "if not connection.direct:",
        "if False:",
        tests=POOLER,
    ),
    postgresql(
        "installing needs no lock",
        "eight workers do it at once",
        "schema.py",
        '    connection.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [place.named("")])\n',
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
        "a ticket never changes",
        "its task brings it along",
        "v1/acquire_else.sql",
        "        a.ticket := celery_semaphore.v1_known_as(a.ticket, ats);\n",
        "        a.ticket := a.ticket;\n",
    ),
    postgresql(
        "whoever attaches knows the ticket",
        "it was made a moment ago",
        "v1/outbox.sql",
        "        _ticket := found_as;\n",
        "",
    ),
    postgresql(
        "another ticket is an earlier task's",
        "a wait has one ticket only",
        "v1/acquire_else.sql",
        "NOT celery_semaphore.v1_is_same(said.ticket, _ticket)",
        "said.ticket <> _ticket",
    ),
)
