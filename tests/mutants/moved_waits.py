"""Wrong ideas about a wait that moves to the line of another resource, where one of its ticket stands already."""

from __future__ import annotations

from .epochs import memory
from .lua import CONFORMED, lua
from .postgresql import postgresql

SUITE = "tests/stores/test_conformance.py"
THAT_MOVES = ("-k", "that_moves")
ON_MEMORY = (f"{SUITE}::TestMemoryStore", *THAT_MOVES)
ON_REDIS = (f"{CONFORMED}::TestValkeyStore", *THAT_MOVES)
ON_POSTGRESQL = (f"{CONFORMED}::TestPostgresStore", *THAT_MOVES)

GIVES_WAY = ("a message that moves always gives way", "the newer delivery stands for the task")
BEFORE_GRANTS = ("a message that moves goes before a grant", "it is in the store")
HELD = ("any wait that moves goes before one without a message", "it was first in its line")

MUTANTS = (
    memory(
        *GIVES_WAY,
        "handing_on",
        "waiter.nonce not in other.grants:\n        there = waiter",
        "False:\n        there = waiter",
        tests=ON_MEMORY,
    ),
    memory(
        *BEFORE_GRANTS,
        "handing_on",
        " and waiter.nonce not in other.grants:",
        ":",
        tests=ON_MEMORY,
    ),
    memory(
        *HELD,
        "handing_on",
        "there.payload is None and waiter.payload is not None and",
        "there.payload is None and",
        tests=ON_MEMORY,
    ),
    lua(
        *GIVES_WAY,
        "_hand_on",
        "if not there or payload and not granted_until and",
        "if not there or false and",
        tests=ON_REDIS,
    ),
    lua(
        *BEFORE_GRANTS,
        "_hand_on",
        "payload and not granted_until and",
        "payload and",
        tests=ON_REDIS,
    ),
    lua(
        *HELD,
        "_hand_on",
        "payload and not granted_until and",
        "not granted_until and",
        tests=ON_REDIS,
    ),
    postgresql(
        *GIVES_WAY,
        "v1/hand_on.sql",
        "WHERE there.id = other_id AND there.payload IS NULL AND there.state",
        "WHERE false AND there.payload IS NULL AND there.state",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        *BEFORE_GRANTS,
        "v1/hand_on.sql",
        " AND there.state <> 'granted'",
        "",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        *HELD,
        "v1/hand_on.sql",
        " AND _head.payload IS NOT NULL\n    RETURNING",
        "\n    RETURNING",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        "a wait that moves has its own rank",
        "it is the one that stays",
        "v1/hand_on.sql",
        "urgency = least(w.urgency, gone)",
        "urgency = w.urgency",
        tests=ON_POSTGRESQL,
    ),
)
