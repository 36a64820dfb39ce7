"""Wrong ideas about the limits that acquires declare: row A4 of docs/maintain/architecture.md."""

from __future__ import annotations

from .epochs import memory
from .lua import CONFORMED, lua
from .postgresql import postgresql
from .worker import worker

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
ZERO_IN_LINE = ("whoever said 0 stands in line", "each release would start it again")
LAPSES_UNSEEN = (
    "no declaration sees to a lower limit that lapses",
    "the next look will find out",
)
SAYS_LAST = ("the last one to declare is named", "it declared the smallest, too")
SAYS_PRESENT = (
    "the smallest of the window before is said to be of the present one",
    "it is the newest",
)
ZERO_FOR_EVER = ("whoever said 0 stands aside for ever", "no callable is asked again")

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
        "limit, ends = math.min(limit, at.low),",
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
        "        before, before_by = at.low, known_by[1]\n",
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
    lua(*FOR_EVER, "_limits", " and now < at.window_ends\n", "\n", tests=ON_REDIS),
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
        "not known or known <= ends - 2 * LEASE then",
        "not known then",
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
    lua(*FAR_END, "_limits", "math.min(ends, known)\n", "known\n", tests=ON_REDIS),
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
        " or permits.rises_at(at) or",
        " or",
        tests=ON_REDIS,
    ),
    postgresql(
        "a look forgets that a limit lapses",
        "it was due once",
        "v1/reap.sql",
        "(SELECT celery_semaphore.v1_lapses(r, _m.now) FROM celery_semaphore.resource AS r WHERE r.name = _name), -- A4",
        "",
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
        " and all(claim.limit != 0 for claim in self.wanted):",
        ":",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_TAKES,
        "acquire_slow_path",
        "whole = whole and not refuses_itself\n",
        "",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_TAKES,
        "v1/acquire_slow_path.sql",
        "_given.whole AND NOT 0 = ANY (array_remove(_a.limits, NULL))",
        "_given.whole",
        tests=ZERO_ON_POSTGRESQL,
    ),
    memory(
        *ZERO_IN_LINE,
        "acquisition",
        "aside=waiter.rests(claim.resource, self.state.now)",
        "aside=False",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_IN_LINE,
        "_own_wait",
        "        line.rest(claim.at, ticket, asked)\n",
        "",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_IN_LINE,
        "v1/refuse.sql",
        "            WHEN _a.limits[_n] = 0 THEN 'set_aside' -- C1: until it is due\n",
        "",
        tests=ZERO_ON_POSTGRESQL,
    ),
    memory(
        *ZERO_FOR_EVER,
        "stored_wait",
        ".limit == 0 and self.due > now",
        ".limit == 0",
        tests=ZERO_ON_MEMORY,
    ),
    lua(
        *ZERO_FOR_EVER,
        "reap",
        " == 0 and info.due <= now then",
        " == 0 and false then",
        tests=ZERO_ON_REDIS,
    ),
    postgresql(
        *ZERO_FOR_EVER,
        "v1/sessions.sql",
        "WHERE aside.own_limit = 0 AND aside.due <= _m.now));",
        "WHERE false));",
        tests=ZERO_ON_POSTGRESQL,
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
        "least(_m.now + _m.lease, celery_semaphore.v1_lapses(known, _m.now),\n",
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
        "        by = limit < at.low and by or known_by[1]\n",
        "",
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
        'at.lapses and "limit_before_by" or "limit_by"',
        '"limit_by"',
        tests=ON_REDIS,
    ),
    postgresql(
        *SAYS_PRESENT,
        "v1/declared.sql",
        "_at.declared_by ELSE _at.declared_before_by",
        "_at.declared_by ELSE _at.declared_by",
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
        "a worker declares for calls with a key, too",
        "their limits are plain numbers as well",
        "worker/main_process/declared_limits",
        "if limit.key is None and not callable",
        "if not callable",
        UNIT,
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
)
