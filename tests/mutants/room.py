"""Wrong ideas about how many grants a session can use, and what its grants cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .asking import MESSAGES, SESSION, asking
from .epochs import SUITE, memory
from .lua import lua as on_redis
from .mutant import Mutant
from .postgresql import postgresql

GRANTS = ("tests/stores/test_grants.py", "-k", "valkey")
lua = partial(on_redis, tests=GRANTS)


def conformance(mutant: Mutant, store: str, noticed_by: str) -> Mutant:
    return replace(mutant, tests=(f"{SUITE}::Test{store}Store", "-k", noticed_by))


REDIS = [
    conformance(
        on_redis(
            "a question leaves the room as it was",
            "a pool does not grow",
            "ask",
            '    call("HSET", ROOMS, session, room)\n',
            '    call("HSET", ROOMS, session, call("HGET", ROOMS, session) or room)\n',
        ),
        "Valkey",
        "changes_its_room",
    ),
    conformance(
        on_redis(
            "only the first in line may be of a session without room",
            "the line goes on once it has room",
            "_line",
            "elseif sessions.has_room(info.session) or not passes_over(at, up_to) then",
            "else",
        ),
        "Valkey",
        "others_are_granted_the_rest",
    ),
    conformance(
        on_redis(
            "what was passed over is not due",
            "the next release hands on",
            "_line",
            "    index.mark_in_use(at, now) -- the session may have room soon\n",
            "",
        ),
        "Valkey",
        "once_it_has_room or changes_its_room",
    ),
    conformance(
        on_redis(
            "the room of a session is known once in a call",
            "a call grants little",
            "_sessions",
            "    has_room[session] = nil\n",
            "",
        ),
        "Valkey",
        "what_it_has_room_for",
    ),
    conformance(
        on_redis(
            "a grant that is prolonged ends when it was told",
            "the next question tells",
            "_sessions",
            '    call("ZADD", ENDS, "XX", ends, entry(session, at, nonce))\n',
            "",
        ),
        "Valkey",
        "all_are_prolonged",
    ),
    lua(
        "an overdue grant is told",
        "it is still written",
        "_sessions",
        "        if not over[one] then",
        "        if true then",
    ),
    lua(
        "any number of waits is passed over",
        "the first one that can be granted comes soon",
        "_line",
        "local left = MOST - (at.passed_over or 0)",
        "local left = 1000",
    ),
    lua(
        "a hundredth wait without room may be granted",
        "the line must go on",
        "_hand_on",
        " or not sessions.has_room(info.session) then -- H6, H11",
        " then -- H6, H11",
    ),
    lua(
        "a session that sleeps keeps its room",
        "it wakes soon",
        "_sessions",
        '    call("HDEL", ROOMS, session)\n',
        "",
    ),
    lua(
        "each grant deletes its own entry",
        "what is evicted had none",
        "ask",
        "sessions.tidy()\n",
        "",
    ),
    lua(
        "a name that begins alike is the same",
        "names are random",
        "_sessions",
        'return "[" .. session .. "\\n", "(" .. session .. "\\011"',
        'return "[" .. session, "(" .. session .. "\\255"',
    ),
]
POSTGRES = [
    conformance(
        postgresql(
            "the short way grants whatever the room is",
            "one permit is little",
            "v1/pass_on.sql",
            " OR NOT celery_semaphore.v1_has_room(head.session) THEN",
            " THEN",
        ),
        "Postgres",
        "keeps_its_place",
    ),
    conformance(
        postgresql(
            "a session without room blocks the line",
            "it has room soon",
            "v1/line.sql",
            "        AND celery_semaphore.v1_has_room(first.session) THEN\n",
            "        THEN\n",
        ),
        "Postgres",
        "others_are_granted_the_rest",
    ),
    conformance(
        postgresql(
            "what was passed over is not due",
            "the next release hands on",
            "v1/reap.sql",
            "                OR NOT celery_semaphore.v1_has_room((celery_semaphore.v1_head(home)).session), -- H11\n",
            "            ,\n",
        ),
        "Postgres",
        "once_it_has_room or changes_its_room",
    ),
    conformance(
        postgresql(
            "a question leaves the room as it was",
            "a pool does not grow",
            "v1/sessions.sql",
            ", room = excluded.room\n",
            "\n",
        ),
        "Postgres",
        "changes_its_room",
    ),
]
MEMORY = [
    conformance(
        memory(
            "a session without room blocks the line",
            "it has room soon",
            "state",
            "            elif has_room(waiter.session):\n",
            "            else:\n",
        ),
        "Memory",
        "others_are_granted_the_rest",
    ),
]
WORKER = [
    asking(
        "a worker takes all that it is granted",
        "its processes come to all of them",
        "worker/keeping/session",
        ", to_forecast=first, room=room)",
        ", to_forecast=first)",
        f"{SESSION}::test_it_is_granted_what_its_processes_can_begin",
    ),
    asking(
        "a worker reaps after each grant that it takes up",
        "there is room",
        "worker/keeping/pool_line",
        "granted <= size // 2",
        "granted < size",
        f"{SESSION}::test_it_reaps_once_it_has_room_again",
    ),
    asking(
        "a release grants what was passed over",
        "each line has one soon",
        "worker/keeping/session",
        "if self._room.opened(len(reply.granted)) or waits:",
        "if waits:",
        f"{SESSION}::test_it_reaps_once_it_has_room_again",
    ),
    asking(
        "what was granted is before all others for ever",
        "its permit idles meanwhile",
        "worker/keeping/pool_line",
        ' and getattr(request, "let_pass", 0) < MOST_AHEAD',
        "",
        f"{MESSAGES}::test_what_was_granted_does_not_stop_all_others",
    ),
]
MUTANTS = (*REDIS, *POSTGRES, *MEMORY, *WORKER)
