"""Wrong ideas about a store that was not called for a while."""

from __future__ import annotations

from .lua import lua
from .model import modelled
from .mutant import Group
from .postgresql import postgresql

SUITE = "tests/stores/test_conformance.py"
OF_SILENCES = (
    "-k",
    (
        "ends_at_once or nor_if or shown_and_counted or ends_soon_after or no_silence or moment_more or quiet_semaphore"
        " or over_before or rare_calls or grant_ends_in_it or if_the_clock_steps_back"
        " or beside_what_is_spared or longer_now"
    ),
)
MEMORY = (f"{SUITE}::TestMemoryStore", *OF_SILENCES)
VALKEY = (f"{SUITE}::TestValkeyStore", *OF_SILENCES)
POSTGRES = (f"{SUITE}::TestEmbeddedPostgresStore", *OF_SILENCES)

memory = Group("memory", "celery_semaphore/stores/memory", tests=MEMORY)

NEVER = ("no silence is known", "all leases ended by the clock")
LONG = ("ten renewals are no silence", "a store may be slow")
GRANTS = ("a grant outlasts a silence", "so does a permit")
FREE = ("a permit that ended before a silence lasts", "it is still there")
BACK = ("a silence lasts though the clock stepped back", "it ends at its time")
SELDOM = ("only a call after a silence is noted", "the others change nothing")
NEW = ("all renew by a longer lease at once", "it is in force")
SPARED = ("what is spared is looked at in each sweep", "it is overdue")
RENEWED = ("a permit that is renewed first is over", "its lease ended")

IN_MEMORY = [
    memory(
        *NEW,
        "epoch",
        "min(self.lease, self.slow) if now < self.slow_until else self.lease",
        "self.lease",
    ),
    memory(*NEVER, "epoch", "if now < self.awaited_until else now", "if False else now"),
    memory(
        *LONG,
        "epoch",
        "now - self.called > self._shortest(self.called)",
        "now - self.called > 5 * self._shortest(self.called)",
    ),
    memory(*GRANTS, "state", "self.now if entry.granted else self.epoch", "self.epoch"),
    memory(*FREE, "epoch", "return self.silent_since if now", "return 0 if now"),
    memory(*BACK, "epoch", "            self.awaited_until = 0\n", "            pass\n"),
    memory(
        *RENEWED,
        "state",
        "        return not self.is_over(entry)\n",
        "        return entry.ends > self.now\n",
    ),
]

IN_REDIS = [
    lua(
        *NEW,
        "_prelude",
        "is_changed and math.min(LEASE, tonumber(memory[8])) or LEASE",
        "LEASE",
        tests=VALKEY,
    ),
    lua(
        *SPARED,
        "reap",
        "first_end(at.holders, math.max(grace_end, awaited_until))",
        "first_end(at.holders, grace_end)",
        tests=VALKEY,
    ),
    lua(
        *NEVER,
        "_prelude",
        "local permits_ended_by = now < awaited_until and silent_since or now",
        "local permits_ended_by = now",
        tests=VALKEY,
    ),
    lua(
        *LONG,
        "_prelude",
        "elseif called and now - called > math.floor(shortest * 2 / 3) then",
        "elseif called and now - called > 5 * GRACE then",
        tests=VALKEY,
    ),
    lua(
        *GRANTS,
        "_prelude",
        "(is_grant and now or permits_ended_by)",
        "permits_ended_by",
        tests=VALKEY,
    ),
    lua(
        *FREE,
        "_prelude",
        "now < awaited_until and silent_since or now",
        "now < awaited_until and 0 or now",
        tests=VALKEY,
    ),
    lua(*BACK, "_prelude", "        awaited_until = 0\n", "        called = now\n", tests=VALKEY),
    lua(
        *SELDOM,
        "_prelude",
        "if not called or math.abs(now - called) >= LEASE / 10 then",
        "if not called or math.abs(now - called) > GRACE then",
        tests=VALKEY,
    ),
    lua(
        *RENEWED,
        "_holding",
        '    return not is_over(mine.ends, mine.by ~= "")\n',
        "    return mine.ends > now or in_grace\n",
        tests=VALKEY,
    ),
    lua(
        "an acquire need not look for a silence",
        "only reapers end permits",
        "_expiry",
        'if not mine or is_over(mine.ends, mine.by ~= "") then',
        "if not mine or mine.ends <= now then",
        tests=VALKEY,
    ),
    lua(
        "a count knows no silence",
        "it changes nothing",
        "_look",
        "local permits_ended_by = now < awaited_until and silent_since or now",
        "local permits_ended_by = now",
        tests=(f"{SUITE}::TestValkeyStore", "-k", "shown_and_counted"),
    ),
]

IN_POSTGRES = [
    postgresql(
        *NEW,
        "v1/epoch.sql",
        "WHEN _epoch.called < _epoch.slow_until THEN least(_epoch.lease, _epoch.slow) ELSE",
        "WHEN false THEN 0 ELSE",
        tests=POSTGRES,
    ),
    postgresql(
        *SPARED,
        "v1/reap.sql",
        "greatest(p.ends, _m.spared_until) END)",
        "p.ends END)",
        tests=POSTGRES,
    ),
    postgresql(
        *NEVER,
        "v1/epoch.sql",
        "CASE WHEN now < epoch.awaited_until THEN epoch.silent_since ELSE now END",
        "now",
        tests=POSTGRES,
    ),
    postgresql(
        *LONG,
        "v1/epoch.sql",
        "ELSIF _now - before > shortest * 2 / 3 THEN",
        "ELSIF _now - before > 5 * shortest * 2 / 3 THEN",
        tests=POSTGRES,
    ),
    postgresql(
        *GRANTS,
        "v1/epoch.sql",
        "_ends <= CASE WHEN _granted THEN _m.now ELSE _m.permits_ended_by END",
        "_ends <= _m.permits_ended_by",
        tests=POSTGRES,
    ),
    postgresql(
        *BACK,
        "v1/epoch.sql",
        "        _epoch.awaited_until := 0;\n",
        "        _epoch.called := before;\n",
        tests=POSTGRES,
    ),
    postgresql(
        "a short way need not note its call",
        "a sweep does",
        "v1/epoch.sql",
        "        AND abs(_now - _epoch.called) * 10 < _epoch.lease\n",
        "",
        tests=POSTGRES,
    ),
    postgresql(
        "a sweep that finds nothing is no call",
        "it does nothing",
        "v1/reap.sql",
        "    PERFORM celery_semaphore.v1_note_call(e, now) FROM celery_semaphore.epoch AS e WHERE e.one; -- A17\n",
        "",
        tests=POSTGRES,
    ),
    postgresql(
        *RENEWED,
        "v1/permits.sql",
        "NOT celery_semaphore.v1_is_over(p.ends, p.granted, _m) OR _m.in_grace",
        "p.ends > _m.now OR _m.in_grace",
        tests=POSTGRES,
    ),
    postgresql(
        "a count knows no silence",
        "it changes nothing",
        "v1/totals.sql",
        "CASE WHEN p.granted THEN now ELSE permits_ended_by END",
        "now",
        tests=(f"{SUITE}::TestEmbeddedPostgresStore", "-k", "shown_and_counted"),
    ),
]

# The model is to find these without the tests above.
IN_MODEL = [modelled(IN_REDIS[2]), modelled(IN_MEMORY[4])]

MUTANTS = [*IN_MEMORY, *IN_REDIS, *IN_POSTGRES, *IN_MODEL]
