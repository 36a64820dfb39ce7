"""Wrong ideas about what a store refuses for good, and about its upkeep."""

from __future__ import annotations

from .mutant import Group

NAMES = (
    "tests/stores/test_conformance.py::TestPostgresStore",
    "-k",
    "longer_names or longest_names",
)
REFUSALS = ("tests/stores/test_faults.py::TestRefusals", "-k", "test_final or test_passing")
HEADERS = ("tests/worker/messages/test_headers.py",)
ALONE = ("tests/worker/messages/test_headers.py::test_a_task_whose_id_is_too_long_fails_alone",)

upkeep = Group("upkeep", "celery_semaphore", suffix="")

REFUSING = (
    upkeep(
        "a name may have any length",
        "the server will say so",
        "stores/encoding.py",
        "    if (size := size_of(name)) > LONGEST_NAME:\n",
        "    if (size := size_of(name)) > 10**9:\n",
        *NAMES,
    ),
    upkeep(
        "a character is a byte",
        "most names are plain",
        "core/names.py",
        '    return len(quote(name.encode("utf-8", "surrogatepass"), safe=PLAIN))\n',
        "    return len(name)\n",
        *NAMES,
    ),
    upkeep(
        "a ticket may have any length",
        "no server made a longer one",
        "core/ticket.py",
        " or size_of(match[3]) > LONGEST_NAME:\n",
        ":\n",
        "tests/core/test_ticket.py",
    ),
    upkeep(
        "every error of Redis passes",
        "whatever it is, asking again may help",
        "stores/redis/errors.py",
        "    return bool(_OF_A_SCRIPT.search(reason)) and not passes(reason)\n",
        "    return False\n",
        *REFUSALS,
    ),
    upkeep(
        "every error of a script is final",
        "it would run into it again",
        "stores/redis/errors.py",
        "    return bool(_OF_A_SCRIPT.search(reason)) and not passes(reason)\n",
        "    return bool(_OF_A_SCRIPT.search(reason))\n",
        *REFUSALS,
    ),
    upkeep(
        "a limit of the program passes",
        "it is an operational error",
        "stores/postgresql/connection.py",
        '_FINAL = ("22", "54")\n',
        '_FINAL = ("22",)\n',
        "tests/stores/postgresql/test_faults.py",
        "-k",
        "program and not embedded",
    ),
    upkeep(
        "a header is always a worker's",
        "only workers write it",
        "worker/main_process/request.py",
        "        if header is None or is_sent_back(header, self.id):\n",
        "        if True:\n",
        *HEADERS,
    ),
    upkeep(
        "any ticket is this task's",
        "its message brought it",
        "worker/messages/ticket_header.py",
        "    return first == task_id and bool(",
        "    return bool(",
        *HEADERS,
    ),
    upkeep(
        "a refused task waits",
        "the store did not admit it, so it asks again",
        "worker/pool_process/gate.py",
        "    except SemaphoreError:  # the store answered: an error of this task alone, which fails it\n"
        "        process.breaker.succeeded()\n"
        "        raise\n",
        "    except SemaphoreError as error:\n"
        "        process.breaker.failed(error)\n"
        '        raise Refused("refused", delay=1.0) from None\n',
        *ALONE,
    ),
)

HEALTH = "tests/stores/test_health.py"
OPTIONS = "tests/test_misuses.py"

CHECKING = (
    upkeep(
        "without INFO nothing can be looked at",
        "all that is asked comes from there",
        "stores/redis/health.py",
        "return warnings + _eviction(connection, info) + (",
        "return warnings + (_eviction(connection, info) if info else []) + (",
        f"{HEALTH}::test_a_hoster_that_renamed_info[start_valkey-allkeys-lru]",
    ),
    upkeep(
        "a renamed INFO is an outage",
        "its error is not that of a missing right",
        "stores/redis/health.py",
        "        if passes(said(error)) and not isinstance(error, redis.exceptions.NoPermissionError):\n",
        "        if not isinstance(error, redis.exceptions.NoPermissionError):\n",
        f"{HEALTH}::test_a_hoster_that_renamed_info[start_valkey-noeviction]",
    ),
    upkeep(
        "a limit may be as high as it likes",
        "Python counts as far",
        "core/limit.py",
        "    if not is_whole(value) or not least <= value <= HIGHEST:\n",
        "    if not is_whole(value) or not least <= value:\n",
        OPTIONS,
    ),
    upkeep(
        "a call's number may be as high as it likes",
        "what is written was checked",
        "core/limit.py",
        "        if not is_whole(number) or not least <= number <= HIGHEST:\n",
        "        if not is_whole(number) or not least <= number:\n",
        OPTIONS,
    ),
    upkeep(
        "only a limit may be too high",
        "no weight is above it",
        "stores/encoding.py",
        "        if (claim.limit or 0) > HIGHEST or claim.weight > HIGHEST:\n",
        "        if (claim.limit or 0) > HIGHEST:\n",
        "tests/stores/test_conformance.py::TestMemoryStore",
        "-k",
        "higher_ones",
    ),
)

HERD = "tests/stores/test_herd.py"

REAPING = (
    upkeep(
        "whoever finds it first looks",
        "the others find nothing to do there",
        "stores/redis/lua/overdue.lua",
        '    call("ZADD", INDEX, "XX", now + CLAIMED, name)\n',
        "    local _ = name\n",
        f"{HERD}::test_of_redis[valkey]",
    ),
    upkeep(
        "what is claimed is looked at",
        "a worker that claims it looks at once",
        "stores/redis/lua/overdue.lua",
        "now + CLAIMED",
        "now + LEASE * 10 + CLAIMED",
        f"{HERD}::test_a_worker_dies_before_it_looks[valkey]",
    ),
    upkeep(
        "a full server lets nobody claim",
        "a claim takes no memory",
        "stores/redis/lua/overdue.lua",
        "even_if_full()\n",
        "",
        "tests/stores/test_full.py::test_the_dead_are_reaped[start_valkey]",
    ),
    upkeep(
        "whoever finds it first in PostgreSQL looks",
        "the others wait for its row and find nothing to do there",
        "stores/postgresql/v1/reap.sql",
        "    UPDATE celery_semaphore.resource AS r SET reap_at = now + 1000000 WHERE r.name = ANY (names);\n",
        "",
        f"{HERD}::test_of_postgresql",
    ),
    upkeep(
        "a look waits for who is at the row",
        "it is there for a moment only",
        "stores/postgresql/v1/reap.sql",
        " LIMIT _most FOR UPDATE SKIP LOCKED);\n    IF",
        " LIMIT _most);\n    IF",
        "tests/stores/postgresql/test_faults.py",
        "-k",
        "look_at_once and not embedded",
    ),
)

KNOWN = "tests/stores/test_processes.py"

PROCESSES = (
    upkeep(
        "a forked child is its parent",
        "the store was made once",
        "stores/processes.py",
        '-{os.getpid()}"',
        '"',
        f"{KNOWN}::test_a_forked_child_is_a_process_of_its_own",
    ),
    upkeep(
        "a process that ended is known for ever in Redis",
        "the key expires",
        "stores/redis/lua/overdue.lua",
        'call("ZREMRANGEBYSCORE", processes, "-inf", now - kept)\n',
        "",
        f"{KNOWN}::test_nothing_is_left_of_a_process_that_ended",
    ),
    upkeep(
        "a process of the future is known in Redis",
        "the clock goes on",
        "stores/redis/lua/overdue.lua",
        'call("ZREMRANGEBYSCORE", processes, furthest(), "+inf") -- after the clock stepped back\n',
        "",
        f"{KNOWN}::test_a_process_before_a_step_back_of_the_clock_is_forgotten",
    ),
    upkeep(
        "the processes of an unused store stay in Redis",
        "they are few",
        "stores/redis/lua/overdue.lua",
        'call("PEXPIRE", processes, math.ceil(kept / 1000)) -- no process is left then\n',
        "",
        f"{KNOWN}::test_nothing_is_left_of_a_store_that_is_not_used[valkey]",
    ),
    upkeep(
        "a long lease forgets processes that live",
        "a minute is long",
        "stores/redis/lua/overdue.lua",
        "math.max(SEEN_FOR_S * 1000000, LEASE)",
        "SEEN_FOR_S * 1000000",
        f"{KNOWN}::test_a_process_that_ended_is_forgotten",
    ),
    upkeep(
        "a long lease forgets processes that live in PostgreSQL",
        "a minute is long",
        "stores/postgresql/v1/processes.sql",
        "greatest(celery_semaphore.v1_seen_for(), _lease)",
        "celery_semaphore.v1_seen_for()",
        f"{KNOWN}::test_a_process_that_ended_is_forgotten",
    ),
    upkeep(
        "a process that ended is known for ever in PostgreSQL",
        "its row is updated",
        "stores/postgresql/v1/processes.sql",
        "old.seen <= _now - kept OR ",
        "",
        f"{KNOWN}::test_nothing_is_left_of_a_process_that_ended",
    ),
    upkeep(
        "a process of the future is known in PostgreSQL",
        "the clock goes on",
        "stores/postgresql/v1/processes.sql",
        " OR old.seen > _now + kept -- the clock stepped back",
        "",
        f"{KNOWN}::test_a_process_before_a_step_back_of_the_clock_is_forgotten",
    ),
    upkeep(
        "an upgrade names the formats in any order",
        "a dict has none",
        "stores/processes.py",
        'dict(sorted(Counter(int(name.split(" ", 1)[0]) for name in names).items()))',
        'dict(Counter(int(name.split(" ", 1)[0]) for name in sorted(names, reverse=True)))',
        f"{KNOWN}::test_formats_are_told_apart",
    ),
)

LIMITING = (
    upkeep(
        "the limit of one key is looked for everywhere",
        "a semaphore's limit is, too",
        "stores/redis/store.py",
        "        if resource != semaphore_of(resource):\n            return self._hand_on.reap_all([resource])\n",
        "",
        "tests/stores/test_many_keys.py::test_the_limit_of_one_key_concerns_one",
    ),
    upkeep(
        "the names of all others are told",
        "whoever asks can pick its own",
        "stores/redis/store.py",
        'self._index.names(f"{resource}*") if semaphore_of(n) == resource',
        'self._index.names(f"{resource}*")',
        "tests/stores/test_many_keys.py::test_the_limit_of_a_semaphore_concerns_its_own_keys",
    ),
    upkeep(
        "an index is an index",
        "the planner finds the few that it needs",
        "stores/postgresql/v1/decisions.sql",
        "        SELECT r.name FROM celery_semaphore.resource AS r WHERE r.name = _name\n"
        "        UNION ALL\n"
        "        SELECT r.name FROM celery_semaphore.resource AS r\n"
        "        WHERE r.name >= _name || '/' AND r.name < _name || '0');",
        "        SELECT r.name FROM celery_semaphore.resource AS r\n"
        "        WHERE r.name = _name OR (r.name >= _name || '/' AND r.name < _name || '0') ORDER BY r.name);",
        "tests/stores/postgresql/test_growth.py",
        "-k",
        "reads_the_resources and not embedded",
    ),
)

SENT = ("tests/stores/postgresql/test_faults.py", "-k", "sent and not embedded")

SENDING = (
    upkeep(
        "what was sent need not be on the disk",
        "a permit need not, either",
        "stores/postgresql/v1/outbox.sql",
        "v1_resources_of(_grants), _call, true);",
        "v1_resources_of(_grants), _call);",
        *SENT,
    ),
    upkeep(
        "each message is told by itself",
        "they are few",
        "stores/postgresql/store.py",
        "        for start in range(0, len(grants), BATCH):\n"
        "            some = grants[start : start + BATCH]\n"
        "            told = json.dumps([published(",
        "        for start in range(len(grants)):\n"
        "            some = grants[start : start + 1]\n"
        "            told = json.dumps([published(",
        *SENT,
    ),
)

KEEPING = (
    upkeep(
        "a ticket keeps the whole key",
        "keys are short",
        "stores/encoding.py",
        "    return _packed(brief(claims))\n",
        "    return _packed(tuple(claims))\n",
        "tests/stores/test_conformance.py::TestValkeyStore",
        "-k",
        "little_is_kept",
    ),
)

SCHEMA = ("tests/stores/postgresql/test_schema.py", "-k", "search_path or another_role")

NAMING = (
    upkeep(
        "names are found wherever the session looks",
        "the server's own come first",
        "stores/postgresql/v1/release.sql",
        " SET search_path = pg_catalog, pg_temp",
        "",
        *SCHEMA,
    ),
    upkeep(
        "who installs calls what fits best",
        "it is the server's own",
        "stores/postgresql/schema.py",
        "pg_catalog.hashtextextended($1, 0)",
        "hashtextextended($1, 0)",
        *SCHEMA,
    ),
)

STUCK = ("tests/stores/postgresql/test_faults.py::TestStuckResources", "-k", "not embedded")
KEEPER = ("tests/core/test_lease.py",)
LEASES = (
    "tests/stores/test_conformance.py::TestValkeyStore",
    "-k",
    "renew or lease or part or grace or living",
)
POISON = ("tests/stores/test_faults.py::TestRefusals", "-k", "one_of_many_renewals and not redis")
TOGETHER = "stores/redis/lua/renew_many.lua"

RENEWING = (
    upkeep(
        "renewals wait for each other's resources",
        "all of a batch are locked in one order",
        "stores/postgresql/v1/renew.sql",
        "    IF NOT _waits THEN\n",
        "    IF false THEN\n",
        *STUCK,
    ),
    upkeep(
        "what is busy comes next time",
        "it is free again in a moment",
        "stores/postgresql/renewals.py",
        "        return renewals | self._renew_in_turn(busy)\n",
        "        return renewals\n",
        *STUCK,
    ),
    upkeep(
        "what is busy is claimed",
        "the look will wait for it",
        "stores/postgresql/v1/reap.sql",
        "        WHERE r.reap_at <= now AND pg_try_advisory_xact_lock(celery_semaphore.v1_lock_key(r.name))\n",
        "        WHERE r.reap_at <= now\n",
        f"{STUCK[0]}::test_others_are_reaped",
        "-k",
        "not embedded",
    ),
    upkeep(
        "one that is stuck ends the looks at all",
        "it was claimed, so it must be free",
        "stores/postgresql/runner.py",
        "            if not is_one_resources(error):\n                raise\n        outgoing",
        "            raise\n        outgoing",
        *STUCK,
    ),
    upkeep(
        "one refusal is the answer of all",
        "the store refused the call",
        "core/lease.py",
        "            if len(permits) <= 1:\n",
        "            if permits:\n",
        *KEEPER,
    ),
    upkeep(
        "no answer is a good answer",
        "it is not lost",
        "core/lease.py",
        "        return self._store.lease / BEATS if all_answered else self._soon()\n",
        "        return self._store.lease / BEATS\n",
        *KEEPER,
    ),
    upkeep(
        "one error in a batch is the batch's",
        "all were sent together",
        "stores/redis/runner.py",
        "    if not lenient or not is_final(said(answer)):\n",
        "    if True:\n",
        *POISON,
    ),
    upkeep(
        "whoever is in the ledger is there",
        "the ledger says so",
        TOGETHER,
        '            or tonumber(call("ZSCORE", holders, holder) or 0) <= now\n',
        "            or false\n",
        *LEASES,
    ),
    upkeep(
        "whoever has a lease is there",
        "whatever its record says",
        TOGETHER,
        '        if call("HGET", ledger, "of:" .. holder) ~= ARGV[word + 1 + n] .. written_now\n            or',
        "        if",
        *LEASES,
    ),
    upkeep(
        "an index cannot be lost",
        "it has no expiry",
        TOGETHER,
        'local usual = call("EXISTS", INDEX) == 1',
        "local usual = true",
        "tests/stores/test_redis.py::TestPartialLoss::test_a_lost_index_is_made_again[valkey]",
    ),
    upkeep(
        "a permit is renewed at its first claim",
        "one lease is enough",
        TOGETHER,
        "for n = 1, there and claims or 0 do",
        "for n = 1, there and 1 or 0 do",
        *LEASES,
    ),
    upkeep(
        "each permit begins where the last began",
        "they have one claim each",
        TOGETHER,
        "    key, word = key + 2 * claims, word + 2 + claims\n",
        "    key, word = key + 2, word + 2 + claims\n",
        "tests/stores/test_redis.py::TestRoundTrips::test_many_are_renewed_in_one_call[valkey]",
    ),
)

MUTANTS = (
    *REFUSING,
    *CHECKING,
    *REAPING,
    *PROCESSES,
    *LIMITING,
    *SENDING,
    *KEEPING,
    *NAMING,
    *RENEWING,
)
