"""Wrong ideas about the lease of the whole store."""

from __future__ import annotations

from .lua import lua
from .mutant import Group
from .postgresql import postgresql
from .worker import worker

SUITE = "tests/stores/test_conformance.py"
OF_LEASE = ("-k", "lease or shorter_one or longer_one or knew or sent_grant or operator")
MEMORY = (f"{SUITE}::TestMemoryStore", *OF_LEASE)
VALKEY = (f"{SUITE}::TestValkeyStore", *OF_LEASE)
POSTGRES = (f"{SUITE}::TestEmbeddedPostgresStore", *OF_LEASE)
USED = (f"{SUITE}::TestUsedPostgresStore", *OF_LEASE)

memory = Group("memory", "celery_semaphore/stores/memory", tests=MEMORY)

OWN = ("each caller has a lease of its own", "it knows how often it renews")
SOON = ("a shorter lease holds for all at once", "whoever renews learns it by that")
FIRST = ("the first caller decides about the lease", "an unused store has none")
LONG = ("a longer lease counts for ever", "somebody may renew by it")

IN_STORES = [
    lua(
        *OWN,
        "_prelude",
        "if is_other_lease(memory[6], memory[7]) then",
        "if false then",
        tests=VALKEY,
    ),
    lua(
        "the lease is enough",
        "grants that are sent are few",
        "_call",
        "return lease ~= ARGV[1] or take_up ~= ARGV[2]",
        "return lease ~= ARGV[1]",
        tests=VALKEY,
    ),
    lua(
        *SOON,
        "_prelude",
        "now < (tonumber(memory[9]) or 0) and math.max(LEASE, tonumber(memory[8])) or LEASE",
        "LEASE",
        tests=VALKEY,
    ),
    lua(
        *LONG,
        "_prelude",
        "now < (tonumber(memory[9]) or 0) and math.max(LEASE, tonumber(memory[8])) or LEASE",
        "math.max(LEASE, tonumber(memory[8] or 0))",
        tests=VALKEY,
    ),
    lua(*FIRST, "_prelude", "if memory[6] and not is_late then", "if memory[6] then", tests=VALKEY),
    lua(
        "of two shorter leases the first one is forgotten",
        "it was not in force for long",
        "set_lease",
        '"slow", slowest, "slow_until", now + slowest)',
        '"slow", LEASE, "slow_until", now + LEASE)',
        tests=VALKEY,
    ),
    postgresql(
        *OWN,
        "v1/epoch.sql",
        "    PERFORM celery_semaphore.v1_check_lease(epoch.lease, epoch.take_up, _call);\n",
        "",
        tests=POSTGRES,
    ),
    postgresql(
        "the short ways need not look at the lease",
        "a long one did before",
        "v1/epoch.sql",
        "        AND _epoch.lease = _call.lease AND _epoch.take_up = _call.take_up\n",
        "",
        tests=USED,
    ),
    postgresql(
        *SOON,
        "v1/epoch.sql",
        "CASE WHEN _now < _epoch.slow_until THEN greatest(_epoch.lease, _epoch.slow) ELSE _epoch.lease END",
        "_epoch.lease",
        tests=POSTGRES,
    ),
    postgresql(
        *LONG,
        "v1/epoch.sql",
        "CASE WHEN _now < _epoch.slow_until THEN greatest(_epoch.lease, _epoch.slow) ELSE _epoch.lease END",
        "greatest(_epoch.lease, _epoch.slow)",
        tests=POSTGRES,
    ),
    postgresql(
        *FIRST,
        "v1/epoch.sql",
        "e.slow END) * 2 / 3,\n        lease = _call.lease, take_up = _call.take_up\n",
        "e.slow END) * 2 / 3\n",
        tests=POSTGRES,
    ),
    postgresql(
        "a lost epoch loses the lease",
        "its record is that of the lease",
        "v1/epoch.sql",
        "coalesce(before.slow, 0), coalesce(before.slow_until, 0), _now, 0, 0);",
        "0, 0, _now, 0, 0);",
        tests=POSTGRES,
    ),
    memory(
        *SOON,
        "epoch",
        "max(self.lease, self.slow) if now < self.slow_until else self.lease",
        "self.lease",
    ),
    memory(
        *LONG,
        "epoch",
        "max(self.lease, self.slow) if now < self.slow_until else self.lease",
        "max(self.lease, self.slow)",
    ),
    memory(*FIRST, "epoch", "if late or not self.lease:", "if not self.lease:"),
    memory(*OWN, "epoch", "if late or not self.lease:", "if True:"),
]

IN_CLIENTS = [
    worker(
        "what the store keeps is as good as what is set",
        "the store knows it",
        "stores/durations",
        "        self.in_force = in_force\n        names",
        "        names",
        *VALKEY,
    ),
    worker(
        "each call says which lease it found",
        "it found another one",
        "stores/durations",
        "        if in_force != self.in_force:\n            for",
        "        if True:\n            for",
        *MEMORY[:1],
        "-k",
        "said_once",
    ),
    worker(
        "a batch is repeated as a whole",
        "all calls can be repeated",
        "stores/redis/runner",
        "            left = [n for n in left if self._must_be_repeated(found[n])]\n            if not left:\n",
        "            again = [n for n in left if self._must_be_repeated(found[n])]\n            if not again:\n",
        "tests/stores/test_durations.py",
    ),
    worker(
        "a permit lasts for the lease of this moment",
        "the store has one lease",
        "core/lease",
        "self._clock() - kept.confirmed > LOST_AFTER * kept.lease",
        "self._clock() - kept.confirmed > LOST_AFTER * self._store.lease",
        "tests/core/test_lease.py",
    ),
    worker(
        "a permit is renewed by the lease that this process knows",
        "it renews all of them at once",
        "core/lease",
        "min([self._store.lease, *(kept.lease for kept in self._kept.copy().values())])",
        "self._store.lease",
        "tests/core/test_lease.py",
    ),
    worker(
        "what was renewed lasts for the lease of after",
        "the renewal learnt it",
        "core/lease",
        "min(lease, self._store.lease))",
        "self._store.lease)",
        "tests/core/test_lease.py",
    ),
]

MUTANTS = [*IN_STORES, *IN_CLIENTS]
