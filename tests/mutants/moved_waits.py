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
TAKEN_UP = ("-k", "goes_with_a_grant_that_is_taken_up")
ANEW = ("-k", "that_moves_is_parked_anew")
INTERRUPTED = "tests/stores/test_interrupted_hand_ons.py"

GIVES_WAY = ("a message that moves always gives way", "the newer delivery stands for the task")
BEHIND_GRANTS = ("a message that moves gives way to a grant", "its session holds a message")
HELD = ("any wait that moves goes before one without a message", "it was first in its line")
TWO_MESSAGES = ("a message that moves takes the place of another", "it was first in its line")
NOT_AGAIN = ("a line with another wait is not tried again", "nothing was given back there")
STAYS = ("a message of other claims is not taken up", "a task that changed is another wait")
FIRST_STAYS = ("the first message that was parked stays", "all messages of a task are alike")
NOTHING_FREED = ("who releases nothing hands nothing on", "nothing is free that was not before")
WITH_RANK = ("-k", "parked_anew_with_the_rank")
OF_A_GRANT = ("-k", "rank_of_an_earlier_grant")
NEWEST = ("the newest grant tells the rank of a wait", "it is the one that counts")
OWN_RANK = (
    "a message keeps the rank that it has at its resource",
    "a promotion in another line is not for it",
)
NO_LOOK = ("a line that is tried again is not looked for", "its caller tries it at once")

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
    memory(
        *STAYS,
        "acquisition",
        "        self.state.forget_ticket(self.wanted, self.ticket.nonce)\n        self.messages.admitted(",
        "        stood = self.state.standing(self.wanted, self.ticket.nonce)\n"
        "        if all(at.tickets[self.ticket.nonce].claims == tuple(self.claims) for at in stood):\n"
        "            self.state.forget_ticket(self.wanted, self.ticket.nonce)\n        self.messages.admitted(",
        tests=(ON_MEMORY[0], *TAKEN_UP),
    ),
    lua(
        *STAYS,
        "acquire_slow_path",
        "own_wait.forget() -- A10 or A14",
        "for _, at in ipairs(resources) do at.info = at.info and #at.info.names == #claims and at.info end\n"
        "own_wait.forget() -- A10 or A14",
        tests=(ON_REDIS[0], *TAKEN_UP),
    ),
    postgresql(
        *STAYS,
        "v1/acquire.sql",
        "WHERE w.id = celery_semaphore.v1_digest(home, its_nonce);",
        "WHERE w.id = celery_semaphore.v1_digest(home, its_nonce) AND w.resources = _a.resources;",
        tests=(ON_POSTGRESQL[0], *TAKEN_UP),
    ),
    memory(
        *FIRST_STAYS,
        "attach",
        "    at.tickets[waiter.nonce] = waiter\n",
        "    at.tickets[waiter.nonce] = before if before and before.payload is not None else waiter\n",
        tests=(ON_MEMORY[0], *ANEW),
    ),
    lua(
        *FIRST_STAYS,
        "_line",
        'call("HSET", at.payloads, nonce, payload)',
        'local _ = call("HEXISTS", at.payloads, nonce) == 1 or call("HSET", at.payloads, nonce, payload)',
        tests=(ON_REDIS[0], *ANEW),
    ),
    postgresql(
        *FIRST_STAYS,
        "v1/attach.sql",
        "payload = excluded.payload,",
        "payload = coalesce(w.payload, excluded.payload),",
        tests=(ON_POSTGRESQL[0], *ANEW),
    ),
    memory(
        *OWN_RANK,
        "attach",
        "    ticket = state.known(wanted, ticket.nonce) or ticket\n    at = (state.standing(wanted, ticket.nonce) or [state.at(wanted[0].resource)])[-1]\n",
        "    at = (state.standing(wanted, ticket.nonce) or [state.at(wanted[0].resource)])[-1]\n    ticket = at.ticket_of(ticket.nonce) or ticket\n",
        tests=(ON_MEMORY[0], *WITH_RANK),
    ),
    lua(
        *OWN_RANK,
        "attach",
        "local before = home.info\n",
        "ticket = home.stands or ticket\nlocal before = home.info\n",
        tests=(ON_REDIS[0], *WITH_RANK),
    ),
    postgresql(
        *OWN_RANK,
        "v1/attach.sql",
        "coalesce(celery_semaphore.v1_stored_ticket(ticket.nonce, _parked.resources), ticket);",
        "coalesce(celery_semaphore.v1_stored_ticket(ticket.nonce, _parked.resources[cardinality(_parked.resources):]), ticket);",
        tests=(ON_POSTGRESQL[0], *WITH_RANK),
    ),
    memory(
        *NEWEST,
        "state",
        "        found = [self.at(claim.resource).ticket_of(nonce) for claim in wanted]\n",
        "        newest, _ = self.grant_to(wanted, nonce)\n"
        "        found = [newest.ticket] if newest else [self.at(claim.resource).ticket_of(nonce) for claim in wanted]\n",
        tests=(ON_MEMORY[0], *OF_A_GRANT),
    ),
    lua(
        *NEWEST,
        "_waits",
        "local grant = newest and holders.read(at, GRANT .. nonce)",
        "local grant = newest",
        tests=(ON_REDIS[0], *OF_A_GRANT),
    ),
    postgresql(
        *NEWEST,
        "v1/line.sql",
        "WHERE p.resource = home AND p.holder = celery_semaphore.v1_grant_name(_nonce);\n"
        "        IF FOUND AND (first",
        "WHERE p.resource = home AND p.holder = celery_semaphore.v1_grant_name(_nonce) AND p.token = (SELECT max(q.token)"
        " FROM celery_semaphore.permit AS q WHERE q.resource = ANY (_resources) AND q.holder = p.holder);\n"
        "        IF FOUND AND (first",
        tests=(ON_POSTGRESQL[0], *OF_A_GRANT),
    ),
    lua(
        *NO_LOOK,
        "_hand_on",
        "local look = (again or #undeclared > 0) and now or in_grace",
        "local look = #undeclared > 0 and now or in_grace",
        tests=(INTERRUPTED, "-k", "valkey"),
    ),
    postgresql(
        *NO_LOOK,
        "v1/hand_on.sql",
        "IF handed.again OR handed.needed <> '{}' THEN",
        "IF handed.again AND NOT replaced OR handed.needed <> '{}' THEN",
        tests=(INTERRUPTED, "-k", "postgres"),
    ),
    lua(
        *NOTHING_FREED,
        "release_slow_path",
        "return hand_on.answer() -- R7",
        "local freed = given_up\nfor _, at in ipairs(resources) do freed = freed or at.held_for end\n"
        "return freed and hand_on.answer() or {epoch, 0, {}, {}}",
        tests=(INTERRUPTED, "-k", "valkey and another"),
    ),
    postgresql(
        *NOTHING_FREED,
        "v1/release_slow_path.sql",
        "    IF waits THEN\n",
        "    IF waits AND EXISTS (SELECT FROM unnest(ats) AS one WHERE one.mine IS NOT NULL) THEN\n",
        tests=(INTERRUPTED, "-k", "postgres and another"),
    ),
    postgresql(
        "a reaper that tries a line again is not looked for",
        "it tries it at once",
        "v1/reap.sql",
        "            handed.again OR handed.needed <> '{}' OR home",
        "            handed.needed <> '{}' OR home",
        tests=(INTERRUPTED, "-k", "postgres"),
    ),
)
