"""Wrong ideas about a wait that stands in one line for those behind it in another."""

from __future__ import annotations

from .epochs import memory
from .lua import CONFORMED, lua
from .postgresql import postgresql

SUITE = "tests/stores/test_conformance.py"
ROWS = (
    "-k",
    "moves_for_all or their_order or claims_less or the_other_line or for_none or stand_still",
)
ON_MEMORY = (f"{SUITE}::TestMemoryStore", *ROWS)
ON_REDIS = (f"{CONFORMED}::TestValkeyStore", *ROWS)
ON_POSTGRESQL = (f"{CONFORMED}::TestPostgresStore", *ROWS)

ALL_MOVE = ("all with the same claims move", "each is refused as the first one was")
NONE_PASSES = ("none behind a wait that moved is tried", "it stands for them")
SLEEPS_ON = ("a wait that leaves its line wakes no other", "nothing was freed there")
GRANTS_ALONE = ("a grant concerns the line of the wait", "it has a permit on both")
STANDS = ("a wait that another record replaces stands for others", "it moved there")
SAME = ("a line is known by its first wait", "the others came later")

MUTANTS = (
    memory(
        *ALL_MOVE,
        "handing_on",
        "        if passes is None:\n            return False\n",
        "        if passes is None:\n            return True\n",
        tests=ON_MEMORY,
    ),
    lua(
        *ALL_MOVE,
        "_hand_on",
        'elseif call("HGET", home.ledger, "line_claims") then\n        return false',
        'elseif call("HGET", home.ledger, "line_claims") then\n        return true',
        tests=ON_REDIS,
    ),
    postgresql(
        *ALL_MOVE,
        "v1/move_on.sql",
        "    IF FOUND THEN\n        RETURN;\n",
        "    IF FOUND THEN\n        what := 'moved';\n        RETURN;\n",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *NONE_PASSES,
        "handing_on",
        "(each for each in behind if refusing.name not in each.names)",
        "iter(())",
        tests=ON_MEMORY,
    ),
    lua(
        *NONE_PASSES,
        "_hand_on",
        "local range, passes = line.range_before_others(home, other.name)",
        "local range, passes",
        tests=ON_REDIS,
    ),
    postgresql(
        *NONE_PASSES,
        "v1/move_on.sql",
        "        EXIT WHEN passes;\n",
        "        passes := false;\n",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *SLEEPS_ON,
        "resource",
        "self.woken.update((name, None)",
        "dict[str, None]().update((name, None)",
        tests=ON_MEMORY,
    ),
    lua(
        *SLEEPS_ON,
        "_waits",
        "        waits.woken[name] = name ~= at.name or waits.woken[name]\n",
        "        local _ = name\n",
        tests=ON_REDIS,
    ),
    postgresql(
        *SLEEPS_ON,
        "v1/wake.sql",
        "        PERFORM celery_semaphore.v1_wake(array_remove(_resources, _home));\n",
        "",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *GRANTS_ALONE,
        "handing_on",
        "            if claim.resource != at.name:\n                self.state.wake_lines(claim.resource)\n",
        "",
        tests=ON_MEMORY,
    ),
    lua(
        *GRANTS_ALONE,
        "_hand_on",
        "            waits.woken[claim.at.name] = true\n",
        "",
        tests=ON_REDIS,
    ),
    postgresql(
        *GRANTS_ALONE,
        "v1/hand_on.sql",
        "    PERFORM celery_semaphore.v1_wake(array_remove(_head.resources, _head.resource));\n",
        "",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *STANDS,
        "handing_on",
        "return first is waiter and waiter.nonce not in other.grants",
        "return True",
        tests=ON_MEMORY,
    ),
    lua(
        *STANDS,
        "_hand_on",
        "return not there and not granted_until",
        "return true",
        tests=ON_REDIS,
    ),
    postgresql(
        *STANDS,
        "v1/move_on.sql",
        "    RETURN stands;\n",
        "    RETURN true;\n",
        tests=ON_POSTGRESQL,
    ),
    lua(
        *SAME,
        "_waits",
        "    elseif known and claims ~= known then\n",
        "    elseif known and not known then\n",
        tests=ON_REDIS,
    ),
    postgresql(
        *SAME,
        "v1/wake.sql",
        "        claims := CASE WHEN NOT FOUND THEN claims END;\n",
        "        claims := CASE WHEN NOT FOUND THEN claims ELSE known END;\n",
        tests=ON_POSTGRESQL,
    ),
    lua(
        "a newcomer behind a line that stands still is not looked for",
        "the next release hands on",
        "acquire_slow_path",
        "            index.mark_due(claim.at.name)\n        end\n        return own",
        "        end\n        return own",
        tests=ON_REDIS,
    ),
    postgresql(
        "an admission that leaves room is not looked for",
        "its release hands on",
        "v1/acquire_slow_path.sql",
        "        IF cardinality(_ats) > 1 AND _ats[n].waits\n",
        "        IF false AND _ats[n].waits\n",
        tests=ON_POSTGRESQL,
    ),
    lua(
        "an admission that leaves room is not looked for",
        "its release hands on",
        "acquire_slow_path",
        "        index.mark_due(claim.at.name) -- its lines may go on (H8)\n",
        "        local _ = claim\n",
        tests=ON_REDIS,
    ),
)
