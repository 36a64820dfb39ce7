"""Wrong ideas in one store of three: the model must notice that its answers differ, or that a promise is broken."""

from __future__ import annotations

from dataclasses import replace

from .epochs import memory
from .lua import lua
from .mutant import Mutant
from .postgresql import postgresql

MODEL = ("tests/model/test_model.py::test_the_same_answers", "--hypothesis-profile=unshrunk")


def modelled(mutant: Mutant) -> Mutant:
    """Name it after the model, which is to find it without the tests that were written for such ideas."""
    return replace(mutant, name=f"model/{mutant.name.replace('/', ': ')}", tests=MODEL)


IN_MEMORY = (
    memory(
        "a message whose grant is overdue is not in line",
        "it was granted",
        "state",
        "        self.end_overdue([ResourceClaim(at.name, 0, 0) for at in found])\n        return found\n",
        "        return found\n",
    ),
)

IN_REDIS = (
    lua(
        "an overdue grant of a parked message is forgotten",
        "its caller is gone",
        "_expiry",
        'elseif call("HEXISTS", at.payloads, nonce) == 1 then\n        call("ZADD"',
        'elseif false then\n        call("ZADD"',
    ),
    lua(
        "a promoted message has no place",
        "it is the first",
        "promote",
        'call("HSET", at.tickets, nonce, "000" .. record:sub(4))\n'
        '            call("ZADD", key, 0, "000" .. ticket:sub(4))',
        'local rank = "000." .. string.format("%016.0f", now)\n'
        '            call("HSET", at.tickets, nonce, rank .. record:sub(RANK + 1))\n'
        '            call("ZADD", key, 0, rank .. ticket:sub(RANK + 1))',
    ),
    lua(
        "a ticket that is given up keeps its grant",
        "it will lapse",
        "release_slow_path",
        "    holders.take_back(at, wait)\n",
        "",
    ),
    lua(
        "what is granted is still in line",
        "it has a grant",
        "_hand_on",
        '    call("ZREM", home.line, ticket)\n',
        "",
    ),
)

IN_POSTGRESQL = (
    postgresql(
        "one moment, one token",
        "the clock is fine enough",
        "v1/permits.sql",
        "greatest(token, at.token + 1)",
        "greatest(token, at.token)",
    ),
    postgresql(
        "a holder that is released leaves its unheard wait",
        "it has an end of its own",
        "v1/release_slow_path.sql",
        "        PERFORM celery_semaphore.v1_end_wait(_holder, false, _resources, m.now);\n",
        "",
    ),
)

# The steps that are the same each time do not come to it, others do: the conformance suite names it.
SELDOM = (
    postgresql(
        "a message whose grant is overdue is not in line",
        "it was granted",
        "v1/end.sql",
        "AND w.state IN ('in_line', 'set_aside', 'granted'));",
        "AND w.state IN ('in_line', 'set_aside'));",
    ),
)

MODELLED = tuple(modelled(mutant) for mutant in (*IN_MEMORY, *IN_REDIS, *IN_POSTGRESQL))
MUTANTS = (*MODELLED, *SELDOM)
