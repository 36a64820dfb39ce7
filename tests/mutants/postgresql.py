"""Wrong ideas about PostgreSQL: what its functions alone rely on. The rest is as in lua.py."""

from __future__ import annotations

from .mutant import Mutant

CONFORMANCE = ("tests/stores/test_conformance.py::TestPostgresStore",)
HERE = "tests/stores/postgresql"
FAULTS = f"{HERE}/test_faults.py"
RESTARTS = (f"{FAULTS}::TestRestarts", "-k", "not embedded")
SETTINGS = (f"{FAULTS}::TestOthersSettings", "-k", "not embedded")
FORKS = (FAULTS, "-k", "forked and not embedded")
POOLER = (f"{HERE}/test_pgbouncer.py", "-k", "not embedded")
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
        "        PERFORM pg_advisory_xact_lock(hashtextextended(_names[1], here));\n",
        "",
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
        "set_config('synchronous_commit', 'off', true)",
        "set_config('synchronous_commit', 'off', false)",
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
        "v1/acquire.sql",
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
        "v1/acquire.sql",
        "NOT celery_semaphore.v1_is_same(said.ticket, _ticket)",
        "said.ticket <> _ticket",
    ),
)
