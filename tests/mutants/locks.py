"""Wrong ideas about locks: PostgreSQL's rows and transactions, keys of scripts, threads, and forked processes."""

from __future__ import annotations

from .mutant import Group

postgresql = Group(
    "postgresql",
    "celery_semaphore/stores/postgresql/v1",
    ".sql",
    (
        "tests/stores/postgresql/test_faults.py::TestOthersSettings",
        "-k",
        "not embedded",
    ),
)
postgresql_py = Group("postgresql", "celery_semaphore/stores")
upkeep_sql = Group("upkeep", "celery_semaphore/stores/postgresql/v1", ".sql")
upkeep_py = Group("upkeep", "celery_semaphore/stores")
lua_py = Group("lua", "celery_semaphore/stores")
lua = Group("lua", "celery_semaphore/stores/redis/lua", ".lua")
outside = Group("outside", "celery_semaphore/stores")

MUTANTS = (
    postgresql(
        "any isolation will do",
        "under REPEATABLE READ the snapshot is older than the lock",
        "epoch",
        "IF current_setting('transaction_isolation') <> 'read committed' THEN",
        "IF false THEN",
    ),
    postgresql_py(
        "a reap waits for a head's other resources",
        "they are in use; but one that is stuck delays it once for each head",
        "postgresql/runner",
        "self.handed_on(some, said, lock_timeout)",
        "self.handed_on(some, said)",
        "tests/stores/postgresql/test_faults.py::TestStuckResources::test_a_second_resource_that_heads_need_delays_no_reap",
    ),
    postgresql(
        "no lock",
        "rows are locked when they are updated anyway",
        "epoch",
        "ELSE pg_advisory_xact_lock(celery_semaphore.v1_lock_key(_name)) IS NOT NULL",
        "ELSE true",
    ),
    postgresql(
        "who waits for the lock of one waits for ever",
        "it is soon free",
        "epoch",
        "WHEN set_config('lock_timeout', _lock_timeout::text, true) IS NULL THEN false",
        "",
    ),
    postgresql(
        "a setting for the session",
        "behind a pooler it is another client's",
        "epoch",
        "asked := set_config('synchronous_commit', 'off', true)",
        "asked := set_config('synchronous_commit', 'off', false)",
        "tests/stores/postgresql/test_pgbouncer.py",
        "-k",
        "not embedded",
    ),
    postgresql(
        "who waits for a lock waits for ever",
        "the client gave up, and its call is carried out later",
        "epoch",
        "    asked := set_config('lock_timeout', _call.lock_timeout::text, true);\n",
        "",
    ),
    postgresql_py(
        "installing needs no lock",
        "eight workers do it at once",
        "postgresql/schema",
        '    connection.query(lock, [place.named("")])\n',
        "",
        "tests/stores/postgresql/test_schema.py",
        "-k",
        "not embedded",
    ),
    postgresql_py(
        "a forked child may close what it inherited",
        "its farewell ends the parent's session",
        "postgresql/connection",
        "if self._pid == os.getpid():",
        "if True:",
        "tests/stores/postgresql/test_faults.py",
        "-k",
        "forked and not embedded",
    ),
    postgresql_py(
        "waits are named in the order of their session",
        "all are in one transaction",
        "postgresql/sessions",
        "sorted(waits[:NAMED], key=lambda wait: wait.ticket.nonce)",
        "list(waits[:NAMED])",
        "tests/stores/postgresql/test_waits.py",
        "-k",
        "in_another_order",
    ),
    postgresql(
        "sessions/a session's row is waited for",
        "it is free in a moment",
        "sessions",
        " FOR UPDATE SKIP LOCKED",
        " FOR UPDATE",
        "tests/stores/postgresql/test_sessions.py",
        "-k",
        "not embedded",
    ),
    postgresql(
        "of two calls at once the second one is not told, when it is refused",
        "the other one finds its wait later",
        "refuse",
        "        PERFORM celery_semaphore.v1_check_claims((_a.ticket).nonce, _a.resources, _a.weights, tries);\n",
        "        NULL;\n",
        "tests/stores/postgresql/test_waits.py",
        "-k",
        "into_line_at_once",
    ),
    upkeep_sql(
        "a look waits for who is at the row",
        "it is there for a moment only",
        "reap",
        (" LIMIT _most FOR UPDATE SKIP LOCKED);\n    IF"),
        (" LIMIT _most);\n    IF"),
        "tests/stores/postgresql/test_faults.py",
        "-k",
        "look_at_once and not embedded",
    ),
    upkeep_sql(
        "renewals wait for each other's resources",
        "all of a batch are locked in one order",
        "renew",
        "    IF NOT _waits THEN\n",
        "    IF false THEN\n",
        "tests/stores/postgresql/test_faults.py::TestStuckResources",
        "-k",
        "not embedded",
    ),
    upkeep_py(
        "a forked child is its parent",
        "the store was made once",
        "processes",
        '-{os.getpid()}"',
        '"',
        "tests/stores/test_processes.py::test_a_forked_child_is_a_process_of_its_own",
    ),
    lua_py(
        "a hash slot for each resource",
        "each call concerns one resource",
        "redis/keys",
        'return f"{self._start}{resource}:{part}"',
        'return f"{self._start[1:-2]}:{{{resource}}}:{part}"',
        "tests/stores/test_keys.py::test_all_keys_are_in_one_hash_slot",
    ),
    lua(
        "a key made up within a script",
        "it is in the same hash slot, so a Cluster lets it pass; other servers want it declared",
        "set_limit",
        "decisions.forget_ended()\n",
        ('decisions.forget_ended()\ncall("SET", EPOCH .. ":limited", 1)\n'),
        "tests/stores/test_conformance.py::TestClusterStore",
    ),
    outside(
        "a handler waits for whom it interrupted",
        "a lock with a timeout never waits for ever",
        "non_reentrant_lock",
        "        if self._is_owned():\n            raise AlreadyInCall(UNDER_WAY)\n        try:",
        "        try:",
        "tests/stores/test_non_reentrant_lock.py",
    ),
)
