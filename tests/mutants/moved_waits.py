"""Wrong ideas about a wait that moves to the line of another resource, where one of its ticket stands already."""

from __future__ import annotations

from .epochs import memory
from .lua import CONFORMED, lua
from .mutant import Group
from .postgresql import postgresql

on_redis = Group("redis", "celery_semaphore/stores/redis")
SUITE = "tests/stores/test_conformance.py"
THAT_MOVES = ("-k", "that_moves")
ON_MEMORY = (f"{SUITE}::TestMemoryStore", *THAT_MOVES)
ON_REDIS = (f"{CONFORMED}::TestValkeyStore", *THAT_MOVES)
ON_POSTGRESQL = (f"{CONFORMED}::TestPostgresStore", *THAT_MOVES)

GIVES_WAY = ("a message that moves always gives way", "the newer delivery stands for the task")
BEHIND_GRANTS = ("a message that moves gives way to a grant", "its session holds a message")
HELD = ("any wait that moves goes before one without a message", "it was first in its line")
TWO_MESSAGES = ("a message that moves takes the place of another", "it was first in its line")
NOT_AGAIN = ("a line with another wait is not tried again", "nothing was given back there")

MUTANTS = (
    memory(
        *TWO_MESSAGES,
        "handing_on",
        "there.payload is None and waiter.payload is not None",
        "waiter.payload is not None",
        tests=ON_MEMORY,
    ),
    lua(
        *TWO_MESSAGES,
        "_hand_on",
        'payload and there and call("HEXISTS", other.payloads, nonce) == 0 then',
        "payload and there then",
        tests=ON_REDIS,
    ),
    postgresql(
        *TWO_MESSAGES,
        "v1/hand_on.sql",
        "WHERE there.id = other_id AND there.payload IS NULL AND _head",
        "WHERE there.id = other_id AND _head",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *NOT_AGAIN,
        "handing_on",
        "    if again:\n",
        "    if False:\n",
        tests=ON_MEMORY,
    ),
    lua(
        *NOT_AGAIN,
        "_hand_on",
        "there, again = nil, true --",
        "there = nil --",
        tests=ON_REDIS,
    ),
    on_redis(
        "the names of the first call are enough",
        "the others were needed for one head",
        "hand_on",
        "            wanted = list(more.values())\n            answer = self._runner.run(scripts.REAP, wanted)",
        "            answer = self._runner.run(scripts.REAP, list(more.values()))",
        tests=ON_REDIS,
    ),
    postgresql(
        *NOT_AGAIN,
        "v1/hand_on.sql",
        "handed.again OR replaced;",
        "handed.again;",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *GIVES_WAY,
        "handing_on",
        "    if replaces:\n",
        "    if False:\n",
        tests=ON_MEMORY,
    ),
    memory(
        *BEHIND_GRANTS,
        "handing_on",
        "    if replaces:\n",
        "    if replaces and waiter.nonce not in other.grants:\n",
        tests=ON_MEMORY,
    ),
    memory(
        *HELD,
        "handing_on",
        "there.payload is None and waiter.payload is not None\n",
        "there.payload is None\n",
        tests=ON_MEMORY,
    ),
    lua(
        *GIVES_WAY,
        "_hand_on",
        "    if payload and there and call",
        "    if false and there and call",
        tests=ON_REDIS,
    ),
    lua(
        *BEHIND_GRANTS,
        "_hand_on",
        "payload and there and",
        "payload and there and not call('ZSCORE', other.holders, GRANT .. nonce) and",
        tests=ON_REDIS,
    ),
    lua(
        *HELD,
        "_hand_on",
        "payload and there and",
        "there and",
        tests=ON_REDIS,
    ),
    postgresql(
        *GIVES_WAY,
        "v1/hand_on.sql",
        "WHERE there.id = other_id AND there.payload IS NULL AND _head",
        "WHERE false AND there.payload IS NULL AND _head",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        *BEHIND_GRANTS,
        "v1/hand_on.sql",
        " AND _head.payload IS NOT NULL\n    RETURNING",
        " AND _head.payload IS NOT NULL AND there.state <> 'granted'\n    RETURNING",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        *HELD,
        "v1/hand_on.sql",
        " AND _head.payload IS NOT NULL\n    RETURNING",
        "\n    RETURNING",
        tests=ON_POSTGRESQL,
    ),
    lua(
        "a wait that moves has its own rank",
        "it is the one that stays",
        "_hand_on",
        "        head = ticket < head and ticket or head\n",
        "",
        tests=ON_REDIS,
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
