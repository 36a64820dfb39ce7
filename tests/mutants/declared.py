"""Wrong ideas about the limits that acquires declare: row A4 of docs/maintain/architecture.md."""

from __future__ import annotations

from .epochs import memory
from .lua import CONFORMED, lua
from .postgresql import postgresql
from .worker import worker

REFUSALS = "tests/worker/pool_process/test_refusal.py"
UNIT = "tests/worker/main_process/test_declared_limits.py"
SUITE = "tests/stores/test_conformance.py"
DECLARED = (
    "-k",
    "smallest or idle_worker or raises_it or stray or higher or lapse or takes_up_a_grant_declares or stays or turn or steps_back or stepped_back or other_windows",
)
ZERO = ("-k", "zero or says or without_a_limit")
ON_MEMORY = (f"{SUITE}::TestMemoryStore", *DECLARED)
ON_REDIS = (f"{CONFORMED}::TestValkeyStore", *DECLARED)
ON_POSTGRESQL = (f"{CONFORMED}::TestPostgresStore", *DECLARED)
ZERO_ON_MEMORY = (f"{SUITE}::TestMemoryStore", *ZERO)
ZERO_ON_REDIS = (f"{CONFORMED}::TestValkeyStore", *ZERO)
ZERO_ON_POSTGRESQL = (f"{CONFORMED}::TestPostgresStore", *ZERO)

NEWEST = ("the newest declaration of a window counts", "it is of the newest release")
ONE_WINDOW = (
    "what the window before declared is over",
    "its lower limit was declared a moment ago",
)
FOR_EVER = ("the window before counts for ever", "a lower limit is the safe one")
KEPT = (
    "a limit of old is of the window before",
    "a deployment that raises it would wait for nothing",
)
FAR_END = ("a window of another lease ends when it ends", "after a step back that is in years")
ZERO_COUNTS = ("0 is declared as any other limit", "one task that must not run stops all")
ZERO_TAKES = ("a grant is taken up though its task must not run", "it was granted this permit")
ZERO_IN_LINE = ("one that says 0 stands in line", "its session holds it")
LAPSES_UNSEEN = (
    "no declaration sees to a lower limit that lapses",
    "the next look will find out",
)
SAYS_LAST = ("the last one to declare is named", "it declared the smallest, too")
SAYS_PRESENT = (
    "the smallest of the window before is said to be of the present one",
    "it is the newest",
)
ZERO_AT_ITS_TURN = ("a claim that says 0 refuses at its turn", "the first claim refuses first")
ZERO_STAYS_PARKED = (
    "the message of one that says 0 stays in the store",
    "its task parks",
)
STRAY_ENDS = (
    "what is in force after a loss bounds what is restored",
    "it was declared, and a lower limit is the safe one",
)
NONE_ENDS = (
    "a holder that declared no limit is restored by what is in force",
    "none may be above that",
)
LOSSES = ("-k", "Losses or stray_lower or declared_none or operator_bounds or more_than_each")
OF_ALL = (
    "-k",
    "Keys or late_refusal or of_a_key or over_after or bounds_each or goes_before_it or moves_when or two_windows",
)
FOR_EVER_OF_ALL = (
    "what was declared for all keys stays",
    "a resource's own stays, too",
)
OVER_UNSEEN = ("no look sees that no worker declares for all keys any more", "attempts will")
ALL_COUNT_FIRST = ("what is declared for all keys goes before a key's own", "workers know best")
SILENCE_ENDS = ("the first that is back decides", "all that was declared is old")
WINDOWS_GO_ON = ("windows end in a silence", "nobody declared in them")
KEY_STAYS = ("what was declared at a key stays beside what is for all keys", "it is the last one")
REFUSAL_UNSEEN = ("no refusal sees when the limit for all keys rises", "declarations do")
AFTER_SILENCES = (
    "-k",
    "first_that_is_back or only_acquires or lapses_after_it or declared_after_it",
)
TELLS_OF_OPERATOR = (
    "a limit that an operator set was declared by a process",
    "somebody declared one, too",
)

MUTANTS = (
    memory(
        *NEWEST,
        "declared",
        "(limit, by) if limit < known.limit else",
        "(limit, by) if limit else",
        tests=ON_MEMORY,
    ),
    lua(
        *NEWEST,
        "_limits",
        "limit, ends = math.min(limit, known.low),",
        "limit, ends = limit,",
        tests=ON_REDIS,
    ),
    postgresql(
        *NEWEST,
        "v1/declared.sql",
        "known.declared := least(_limit, known.declared);",
        "known.declared := _limit;",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *ONE_WINDOW,
        "declared",
        "cls(limit, known.limit, ends, by, known.by)",
        "cls(limit, None, ends, by, known.by)",
        tests=ON_MEMORY,
    ),
    lua(
        *ONE_WINDOW,
        "_limits",
        "        before, before_by = known.low, known_by[1]\n",
        "        before = nil\n",
        tests=ON_REDIS,
    ),
    postgresql(
        *ONE_WINDOW,
        "v1/declared.sql",
        "known.declared_before := known.declared;",
        "known.declared_before := NULL;",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *FOR_EVER,
        "declared",
        "self.before is None or self.ends <= now",
        "self.before is None",
        tests=ON_MEMORY,
    ),
    lua(*FOR_EVER, "_limits", " and windows_at < found.ends\n", "\n", tests=ON_REDIS),
    postgresql(
        *FOR_EVER,
        "v1/declared.sql",
        "CASE WHEN _now < _at.declared_until THEN least(",
        "CASE WHEN _now IS NOT NULL THEN least(",
        tests=ON_POSTGRESQL,
    ),
    memory(*KEPT, "declared", " or known.ends <= ends - 2 * lease:", ":", tests=ON_MEMORY),
    lua(
        *KEPT,
        "_limits",
        "known and known.ends > ends - 2 * LEASE and known.ends <= now then",
        "known and known.ends <= now then",
        tests=ON_REDIS,
    ),
    postgresql(
        *KEPT,
        "v1/declared.sql",
        "known.declared IS NULL OR known.declared_until <= ends - 2 * _m.lease THEN",
        "known.declared IS NULL THEN",
        tests=ON_POSTGRESQL,
    ),
    memory(*FAR_END, "declared", "min(ends, known.ends), by", "known.ends, by", tests=ON_MEMORY),
    lua(*FAR_END, "_limits", "math.min(ends, known.ends)\n", "known.ends\n", tests=ON_REDIS),
    postgresql(
        *FAR_END,
        "v1/declared.sql",
        "ends := least(ends, known.declared_until);",
        "ends := known.declared_until;",
        tests=ON_POSTGRESQL,
    ),
    lua(
        "a look forgets that a limit lapses",
        "it was due once",
        "reap",
        " or kept_room.comes_at(at) or",
        " or",
        tests=ON_REDIS,
    ),
    postgresql(
        "a look forgets that a limit lapses",
        "it was due once",
        "v1/reap.sql",
        "celery_semaphore.v1_rises_at(_name, _m), -- O3",
        "celery_semaphore.v1_paused_until(_name, _m.now), -- O3",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *ZERO_COUNTS,
        "state",
        "        if limit:\n",
        "        if limit is not None:\n",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_COUNTS,
        "_permits",
        "limit and limit > 0 and limits",
        "limit and limits",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_COUNTS,
        "v1/declared.sql",
        "changes := _limit > 0 AND",
        "changes := _limit >= 0 AND",
        tests=ZERO_ON_POSTGRESQL,
    ),
    memory(
        *ZERO_TAKES,
        "acquisition",
        "if grant and whole and not self.refuses_itself:",
        "if grant and whole:",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_TAKES,
        "acquire_slow_path",
        "whole = whole and not own_wait.refused_by\n",
        "",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_TAKES,
        "v1/acquire_slow_path.sql",
        "_given.whole AND celery_semaphore.v1_refused_by(_a.limits) IS NULL",
        "_given.whole",
        tests=ZERO_ON_POSTGRESQL,
    ),
    memory(
        *ZERO_IN_LINE,
        "acquisition",
        "        if self.refuses_itself:  # E17\n            self.state.at(claim.resource).tickets[waiter.nonce] = waiter\n            return\n",
        "",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_IN_LINE,
        "_own_wait",
        '        if refused_by then -- E17\n            payload = nil\n        elseif kind == "park"',
        '        if kind == "park"',
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_IN_LINE,
        "v1/refuse.sql",
        "CASE WHEN stays OR refuses_itself THEN ''",
        "CASE WHEN stays THEN ''",
        tests=ZERO_ON_POSTGRESQL,
    ),
    memory(
        *ZERO_AT_ITS_TURN,
        "acquisition",
        "        if self.refuses_itself:\n            return self._refused(self.refuses_itself, Reason.PAUSED)\n"
        "        for claim in self.wanted:\n",
        "        for claim in self.wanted:\n"
        "            if claim.limit == 0:\n                return self._refused(claim, Reason.PAUSED)\n",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_AT_ITS_TURN,
        "acquire_slow_path",
        "if own_wait.refused_by then\n",
        "if false then\n",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_AT_ITS_TURN,
        "v1/acquire_slow_path.sql",
        "IF celery_semaphore.v1_refused_by(_a.limits) IS NOT NULL THEN -- C1",
        "IF celery_semaphore.v1_refused_by(_a.limits) = 1 THEN",
        tests=ZERO_ON_POSTGRESQL,
    ),
    lua(
        *ZERO_STAYS_PARKED,
        "_own_wait",
        "            payload = nil\n",
        "            asked.name, asked.ends = before and before.name, before and before.ends\n",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_STAYS_PARKED,
        "v1/refuse.sql",
        "stood.payload IS NOT NULL AND NOT refuses_itself;",
        "stood.payload IS NOT NULL;",
        tests=ZERO_ON_POSTGRESQL,
    ),
    memory(
        *STRAY_ENDS,
        "state",
        "max(claim.limit, declared.limit if declared else 0)",
        "declared.limit if declared else claim.limit",
        tests=(ON_MEMORY[0], *LOSSES),
    ),
    lua(
        *STRAY_ENDS,
        "_permits",
        "claim.own and math.max(claim.own, permits.known(claim.at).declared or 0)",
        "claim.own and (permits.known(claim.at).declared or claim.own)",
        tests=(ON_REDIS[0], *LOSSES),
    ),
    postgresql(
        *STRAY_ENDS,
        "v1/permits.sql",
        "greatest(each.declared, each.asked)",
        "coalesce(each.declared, each.asked)",
        tests=(ON_POSTGRESQL[0], *LOSSES),
    ),
    memory(
        *NONE_ENDS,
        "state",
        "            return HIGHEST\n",
        "            claim = replace(claim, limit=0)\n",
        tests=(ON_MEMORY[0], *LOSSES),
    ),
    lua(
        *NONE_ENDS,
        "_permits",
        "claim.own and math.max(claim.own,",
        "math.max(claim.own or 0,",
        tests=(ON_REDIS[0], *LOSSES),
    ),
    postgresql(
        *NONE_ENDS,
        "v1/permits.sql",
        "WHEN each.asked IS NULL THEN 9223372036854775807",
        "WHEN each.asked IS NULL THEN coalesce(each.declared, 0)",
        tests=(ON_POSTGRESQL[0], *LOSSES),
    ),
    memory(
        *TELLS_OF_OPERATOR,
        "acquisition",
        "if declared and not by_operator else",
        "if declared else",
        tests=(ON_MEMORY[0], "-k", "told_who"),
    ),
    lua(
        *TELLS_OF_OPERATOR,
        "_own_wait",
        " and not permits.by_operator(claim.at)",
        "",
        tests=(ON_REDIS[0], "-k", "told_who"),
    ),
    postgresql(
        *TELLS_OF_OPERATOR,
        "v1/refuse.sql",
        " AND at.operator IS NULL THEN\n        SELECT celery_semaphore.v1_declared_by",
        " THEN\n        SELECT celery_semaphore.v1_declared_by",
        tests=(ON_POSTGRESQL[0], "-k", "told_who"),
    ),
    postgresql(
        "a wait that moves is looked at when a pause ends, not when a limit lapses",
        "each look sees to that",
        "v1/hand_on.sql",
        "_head.ends, celery_semaphore.v1_rises_at(_head.resources[_n], _m)",
        "_head.ends, celery_semaphore.v1_paused_until(_head.resources[_n], _m.now)",
        tests=(ON_POSTGRESQL[0], "-k", "moved_there_moves_on"),
    ),
    worker(
        "a task whose callable says 0 stands in line",
        "it is granted a permit there",
        "worker/pool_process/refusal",
        " and not _refused_itself(refusal)",
        "",
        REFUSALS,
    ),
    lua(
        *LAPSES_UNSEEN,
        "_permits",
        "        if at.lapses then\n            index.mark_in_use(at, at.lapses)\n        end\n",
        "",
        tests=ON_REDIS,
    ),
    postgresql(
        *LAPSES_UNSEEN,
        "v1/declared.sql",
        "least(_m.now + _m.lease, celery_semaphore.v1_lapses(known, _m.permits_ended_by),\n",
        "least(_m.now + _m.lease,\n",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *SAYS_LAST,
        "declared",
        "(limit, by) if limit < known.limit",
        "(limit, by) if limit <= known.limit",
        tests=ON_MEMORY,
    ),
    lua(
        *SAYS_LAST,
        "_limits",
        "limit < known.low and by or known_by[1], known.before",
        "by, known.before",
        tests=ON_REDIS,
    ),
    postgresql(
        *SAYS_LAST,
        "v1/declared.sql",
        "CASE WHEN _limit < known.declared THEN _by ELSE known.declared_by END;",
        "_by;",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *SAYS_PRESENT,
        "declared",
        "DeclaredLimit(self.before, self.before_by)",
        "DeclaredLimit(self.before, self.by)",
        tests=ON_MEMORY,
    ),
    lua(
        *SAYS_PRESENT,
        "_limits",
        '(said.limit < said.low and "limit_before_by" or "limit_by")',
        '"limit_by"',
        tests=ON_REDIS,
    ),
    postgresql(
        *SAYS_PRESENT,
        "v1/declared.sql",
        "said.declared_by ELSE said.declared_before_by",
        "said.declared_by ELSE said.declared_by",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        "what idle workers declare is deleted",
        "no permit was held for ten leases",
        "v1/reap.sql",
        "(SELECT r.declared_until FROM celery_semaphore.resource AS r WHERE r.name = _name), _m.now\n",
        "NULL, NULL\n",
        tests=ON_POSTGRESQL,
    ),
    lua(
        "a worker that declares makes its resource used",
        "an acquire does so, too",
        "declare",
        "    index.expire_idle(at)\n",
        "    index.mark_in_use(at)\n",
        tests=ON_REDIS,
    ),
    lua(
        "a worker that raises the limit leaves the line to later sweeps",
        "these look at each resource once a lease",
        "declare",
        "    index.mark_in_use(at, now)\n",
        "",
        tests=ON_REDIS,
    ),
    worker(
        "a worker declares for calls without a key what is for those with one",
        "it is one semaphore",
        "worker/main_process/declared_limits",
        "resource if limit.key is None else all_keys_of(resource)",
        "resource",
        UNIT,
    ),
    memory(
        *FOR_EVER_OF_ALL,
        "declared",
        "return self.in_force(now) if now < self.ends + lease else None",
        "return self.in_force(now)",
        tests=(ON_MEMORY[0], *OF_ALL),
    ),
    lua(
        *FOR_EVER_OF_ALL,
        "_limits",
        "if found and windows_at < found.ends + LEASE then",
        "if found then",
        tests=(ON_REDIS[0], *OF_ALL),
    ),
    postgresql(
        *FOR_EVER_OF_ALL,
        "v1/declared.sql",
        " AND b.one AND _now < r.declared_until + b.lease;",
        " AND b.one;",
        tests=(ON_POSTGRESQL[0], *OF_ALL),
    ),
    lua(
        *OVER_UNSEEN,
        "_limits",
        "        found.lapses = found.lapses or math.max(found.ends + LEASE, awaited_until)\n",
        "",
        tests=(ON_REDIS[0], *OF_ALL),
    ),
    postgresql(
        *OVER_UNSEEN,
        "v1/declared.sql",
        "CASE WHEN of_all.name IS NOT NULL THEN at.declared_until + _m.lease END",
        "CASE WHEN false THEN at.declared_until END",
        tests=(ON_POSTGRESQL[0], *OF_ALL),
    ),
    lua(
        *ALL_COUNT_FIRST,
        "_limits",
        "at.bound and not (own and own.limit <= at.bound.limit) and at.bound or own",
        "at.bound or own",
        tests=(ON_REDIS[0], *OF_ALL),
    ),
    worker(
        "a worker warns of its own limit, too",
        "it is as well to know",
        "worker/main_process/declared_limits",
        "if declared.limit != self.limits[resource]:",
        "if declared.limit:",
        UNIT,
    ),
    worker(
        "a worker warns of each one that declares",
        "each is another mistake",
        "worker/main_process/declared_limits",
        'f"{resource} {declared.limit}",',
        'f"{resource} {declared}",',
        UNIT,
    ),
    worker(
        "workers leave declaring to their tasks",
        "these say their limit each time",
        "worker/limiter",
        "lambda: self.worker.declare(own))  # the sweeper reaps",
        "lambda: None)",
        "tests/worker/test_limiter.py::test_the_keeper_of_a_worker_declares_its_limits",
    ),
    memory(
        *SILENCE_ENDS,
        "declared",
        "        if silent_since < now and self.ends <= now and silent_since < self.ends + lease:\n",
        "        if silent_since > now:\n",
        tests=(ON_MEMORY[0], *AFTER_SILENCES),
    ),
    lua(
        *SILENCE_ENDS,
        "_limits",
        "if known and windows_at < now and known.ends <= now and",
        "if known and windows_at > now and",
        tests=(ON_REDIS[0], *AFTER_SILENCES),
    ),
    postgresql(
        *SILENCE_ENDS,
        "v1/declared.sql",
        "IF _m.permits_ended_by < _m.now AND known",
        "IF _m.permits_ended_by > _m.now AND known",
        tests=(ON_POSTGRESQL[0], *AFTER_SILENCES),
    ),
    memory(
        *WINDOWS_GO_ON,
        "state",
        "        return self.epoch.permits_ended_by(self.now)\n\n    def is_over",
        "        return self.now\n\n    def is_over",
        tests=(ON_MEMORY[0], *AFTER_SILENCES),
    ),
    lua(
        *WINDOWS_GO_ON,
        "_limits",
        "local windows_at = permits_ended_by\n",
        "local windows_at = now\n",
        tests=(ON_REDIS[0], *AFTER_SILENCES),
    ),
    postgresql(
        *WINDOWS_GO_ON,
        "v1/resource.sql",
        "celery_semaphore.v1_declared(_name, r, _m.permits_ended_by), (",
        "celery_semaphore.v1_declared(_name, r, now), (",
        tests=(ON_POSTGRESQL[0], *AFTER_SILENCES),
    ),
    postgresql(
        "the short ways go on after a silence",
        "no permit is over there",
        "v1/epoch.sql",
        " AND _epoch.awaited_until <= _now AND",
        " AND",
        tests=(ON_POSTGRESQL[0], *AFTER_SILENCES),
    ),
    memory(
        *KEY_STAYS,
        "state",
        "found = own.declared.lately(self.windows_at, self.lease)",
        "found = own.declared.in_force(self.windows_at)",
        tests=(ON_MEMORY[0], *OF_ALL),
    ),
    lua(
        *KEY_STAYS,
        "_limits",
        "        own = lately(own)\n",
        "",
        tests=(ON_REDIS[0], *OF_ALL),
    ),
    postgresql(
        *KEY_STAYS,
        "v1/declared.sql",
        "        AND _now < _at.declared_until + (SELECT b.lease FROM celery_semaphore.epoch_before AS b WHERE b.one)\n",
        "",
        tests=(ON_POSTGRESQL[0], *OF_ALL),
    ),
    lua(
        *REFUSAL_UNSEEN,
        "_own_wait",
        "in_grace and grace_until or kept_room.comes_at(at)",
        "in_grace and grace_until or permits.paused_until(at)",
        tests=(ON_REDIS[0], *OF_ALL),
    ),
    postgresql(
        *REFUSAL_UNSEEN,
        "v1/refuse.sql",
        "FROM celery_semaphore.v1_rises_at(_a.resources[_n], _m) AS",
        "FROM celery_semaphore.v1_paused_until(_a.resources[_n], _m.now) AS",
        tests=(ON_POSTGRESQL[0], *OF_ALL),
    ),
    postgresql(
        "a worker that declares waits for each lock",
        "all calls take them in this order",
        "v1/declared.sql",
        "        changed := celery_semaphore.v1_lock_free(changed);\n",
        "        PERFORM celery_semaphore.v1_lock(changed);\n",
        tests=("tests/stores/postgresql/test_declared_limits.py",),
    ),
    lua(
        "a full server takes no declaration",
        "it admits none either",
        "declare",
        "even_if_full()\n",
        "",
        tests=("tests/stores/test_health.py", "-k", "workers_declare"),
    ),
    worker(
        "each key is warned of",
        "each is another line",
        "worker/pool_process/refusal",
        'f"{claim.semaphore} {claim.weight} above',
        'f"{claim.resource} {claim.weight} above',
        REFUSALS,
    ),
)
