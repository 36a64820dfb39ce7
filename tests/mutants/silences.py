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
RENEWED = ("a permit that is renewed first is over", "its lease ended")

IN_MEMORY = [
    memory(*NEVER, "epoch", "if now < self.awaited_until else now", "if False else now"),
    memory(
        *LONG,
        "epoch",
        "now - self.called > self._grace(now)",
        "now - self.called > 5 * self._grace(now)",
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
        *NEVER,
        "_prelude",
        "local permits_ended_by = now < awaited_until and silent_since or now",
        "local permits_ended_by = now",
        tests=VALKEY,
    ),
    lua(
        *LONG,
        "_prelude",
        "elseif called and now - called > GRACE then",
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
        "totals",
        "local permits_ended_by = now < awaited_until and silent_since or now",
        "local permits_ended_by = now",
        tests=(f"{SUITE}::TestValkeyStore", "-k", "shown_and_counted"),
    ),
]

IN_POSTGRES = [
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
        "ELSIF _now - before > celery_semaphore.v1_grace(_epoch, _now) THEN",
        "ELSIF _now - before > 5 * celery_semaphore.v1_grace(_epoch, _now) THEN",
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
IN_MODEL = [modelled(IN_REDIS[0]), modelled(IN_MEMORY[3])]

MUTANTS = [*IN_MEMORY, *IN_REDIS, *IN_POSTGRES, *IN_MODEL]
