"""Wrong ideas about the claims of a wait, which it keeps until it is over (A19)."""

from __future__ import annotations

from .epochs import memory
from .lua import CONFORMED, lua
from .mutant import Group
from .postgresql import postgresql
from .worker import worker

on_redis = Group("redis", "celery_semaphore/stores/redis")
SUITE = "tests/stores/test_conformance.py"
KEPT = ("-k", "keeps_its_claims or are_no_change or order_and_the_limits")
ON_MEMORY = (f"{SUITE}::TestMemoryStore", *KEPT)
ON_REDIS = (f"{CONFORMED}::TestValkeyStore", *KEPT)
ON_POSTGRESQL = (f"{CONFORMED}::TestPostgresStore", *KEPT)
ATTACHED = ("-k", "is_not_attached")
NAMED = ("-k", "with_other_claims_is_elsewhere")
UNHEARD = ("-k", "late_release_leaves")
SENT = ("-k", "that_was_sent_keeps_its_claims")
INTERRUPTED = "tests/stores/test_interrupted_hand_ons.py"
GATE = ("tests/worker/pool_process/test_gate.py",)
KEPT_CLAIMS = ("worker/pool_process/kept_claims",)
RACE = ("tests/stores/postgresql/test_waits.py", "-k", "into_line_at_once")

NEWEST = ("a wait takes the claims of its last delivery", "they are the task's by now")
WEIGHTS = ("a wait takes another weight", "it waits for the same permit")
ORDER = ("the order of claims is a part of them", "it says which line is tried first")
ATTACH = ("a message is attached whatever the claims are", "its wait is known")
NAME = ("a wait is named whatever the claims are", "its session holds a message of it")
GONE = ("what was sent has no claims", "its wait is over")
LATE = ("a late release ends the grant of what was sent", "the holder made the ticket")
NOTHING_FREED = ("who releases nothing hands nothing on", "nothing is free that was not before")

MUTANTS = (
    memory(
        *NEWEST,
        "acquisition",
        "        self.state.check_claims(self.wanted, self.ticket.nonce)  # A19\n",
        "",
        tests=ON_MEMORY,
    ),
    lua(
        *NEWEST,
        "acquire_slow_path",
        "if other_claims then -- A19",
        "if false then -- A19",
        tests=ON_REDIS,
    ),
    postgresql(
        *NEWEST,
        "v1/acquire_slow_path.sql",
        "IF _others IS NOT NULL THEN -- A19",
        "IF false THEN -- A19",
        tests=ON_POSTGRESQL,
    ),
    postgresql(
        "a grant is taken up by less than it is for",
        "the weight is the same",
        "v1/acquire.sql",
        "SELECT w.resources = _a.resources FROM",
        "SELECT true FROM",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *WEIGHTS,
        "stored_wait",
        "return own == {claim.resource: claim.weight for claim in wanted}",
        "return own.keys() == {claim.resource for claim in wanted}",
        tests=ON_MEMORY,
    ),
    lua(
        *WEIGHTS,
        "_waits",
        'string.format("%s*%.0f", name, info.weights[name])',
        "name",
        tests=ON_REDIS,
    ),
    postgresql(
        *WEIGHTS,
        "v1/ticket.sql",
        "SELECT * FROM unnest(_wait.resources, _wait.weights)\n            EXCEPT SELECT * FROM unnest(_resources, _weights))",
        "SELECT * FROM unnest(_wait.resources)\n            EXCEPT SELECT * FROM unnest(_resources))",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *ORDER,
        "stored_wait",
        "return own == {claim.resource: claim.weight for claim in wanted}",
        "return list(own.items()) == [(claim.resource, claim.weight) for claim in wanted]",
        tests=ON_MEMORY,
    ),
    lua(*ORDER, "_waits", "    table.sort(claimed)\n", "", tests=ON_REDIS),
    postgresql(
        *ORDER,
        "v1/ticket.sql",
        "OR cardinality(_wait.resources) = cardinality(",
        "OR false AND cardinality(_wait.resources) = cardinality(",
        tests=ON_POSTGRESQL,
    ),
    memory(
        *ATTACH,
        "attach",
        "    state.check_claims(wanted, ticket.nonce)  # A19\n",
        "",
        tests=(ON_MEMORY[0], *ATTACHED),
    ),
    lua(
        *ATTACH,
        "attach",
        "if other_claims then -- A19",
        "if false then -- A19",
        tests=(ON_REDIS[0], *ATTACHED),
    ),
    postgresql(
        *ATTACH,
        "v1/attach.sql",
        "    PERFORM celery_semaphore.v1_check_claims(ticket.nonce, _parked.resources, _parked.weights); -- A19\n",
        "",
        tests=(ON_POSTGRESQL[0], *ATTACHED),
    ),
    memory(
        *NAME,
        "name",
        "if at and not at.tickets[ticket.nonce].claims_the_same(wanted):",
        "if False:",
        tests=(ON_MEMORY[0], *NAMED),
    ),
    lua(
        *NAME,
        "name",
        "if waits.other_claims(nonce, info) then -- N4, A19",
        "if false then",
        tests=(ON_REDIS[0], *NAMED),
    ),
    postgresql(
        *NAME,
        "v1/name.sql",
        "ELSIF celery_semaphore.v1_other_claims(known, _resources, _weights) IS NOT NULL THEN",
        "ELSIF false THEN",
        tests=(ON_POSTGRESQL[0], *NAMED),
    ),
    memory(*GONE, "outbox", "at.send(nonce)", "at.forget(nonce)", tests=(ON_MEMORY[0], *SENT)),
    lua(
        *GONE,
        "sent",
        "        waits.send(at, nonce) --",
        "        waits.dequeue(at, nonce) --",
        tests=(ON_REDIS[0], *SENT),
    ),
    postgresql(
        *GONE,
        "v1/outbox.sql",
        "UPDATE celery_semaphore.waiter AS w SET payload = NULL, name = '', outbox = false, ends = NULL\n",
        "DELETE FROM celery_semaphore.waiter AS w\n",
        tests=(ON_POSTGRESQL[0], *SENT),
    ),
    memory(
        *LATE,
        "release",
        " and not at.was_sent(holder)\n",
        "\n",
        tests=(ON_MEMORY[0], *UNHEARD),
    ),
    lua(
        *LATE,
        "release_slow_path",
        " == 0 and not waits.was_sent(at, wait, info)\n",
        " == 0\n",
        tests=(ON_REDIS[0], *UNHEARD),
    ),
    postgresql(
        *LATE,
        "v1/release_slow_path.sql",
        " AND NOT (w.state = 'granted' AND w.session = ''));",
        ");",
        tests=(ON_POSTGRESQL[0], *UNHEARD),
    ),
    lua(
        "the claims of a wait are kept for ever",
        "they are few",
        "_waits",
        '        call("HDEL", CLAIMS, nonce)\n',
        "",
        tests=("tests/stores/test_grants.py", "-k", "no_claims_are_left"),
    ),
    lua(
        "a grant that ends at one resource takes the claims along",
        "its wait is over",
        "_waits",
        '    if call("HDEL", at.tickets, nonce) == 1 then\n        call("HDEL", CLAIMS, nonce)\n    end\n',
        '    call("HDEL", at.tickets, nonce)\n    call("HDEL", CLAIMS, nonce)\n',
        tests=("tests/stores/test_grants.py", "-k", "no_claims_are_left"),
    ),
    postgresql(
        "of two calls at once the second one is not told, when it is refused",
        "the other one finds its wait later",
        "v1/refuse.sql",
        "        PERFORM celery_semaphore.v1_check_claims((_a.ticket).nonce, _a.resources, _a.weights, tries);\n",
        "        NULL;\n",
        tests=RACE,
    ),
    postgresql(
        "of two calls at once the second one is not told, when it is attached",
        "the other one finds its wait later",
        "v1/attach.sql",
        "        PERFORM celery_semaphore.v1_check_claims(_ticket.nonce, _parked.resources, _parked.weights, tries);\n",
        "        NULL;\n",
        tests=RACE,
    ),
    postgresql(
        "of two calls at once the second one is not told, when it is named",
        "the other one finds its wait later",
        "v1/name.sql",
        "CASE WHEN FOUND THEN 'waits' ELSE 'elsewhere' END",
        "'waits'",
        tests=RACE,
    ),
    postgresql(
        "a wait that stands elsewhere is written over",
        "its message is newer",
        "v1/attach.sql",
        "    WHERE w.resource = excluded.resource;\n",
        "    WHERE true;\n",
        tests=RACE,
    ),
    worker(
        "the limits of a wait are kept, too",
        "they are a part of its claims",
        *KEPT_CLAIMS,
        "limit=limits.get(claim.resource, claim.limit)",
        "limit=claim.limit",
        *GATE,
    ),
    worker(
        "all keys have the limit that the task declares",
        "it is one semaphore",
        *KEPT_CLAIMS,
        "{claim.resource: claim.limit for claim in own}",
        "{kept[0].resource: claim.limit for claim in own}",
        *GATE,
    ),
    worker(
        "a wait is kept whatever it weighs",
        "it is set aside, and an operator may raise the limit",
        *KEPT_CLAIMS,
        "    if any(",
        "    if False and any(",
        *GATE,
    ),
    worker(
        "a wait that could never run is left where it stands",
        "the task has other claims by now",
        "worker/pool_process/gate",
        "            process.store.release(ends.ticket, ends.claims)\n",
        "            pass\n",
        *GATE,
    ),
    worker(
        "a limit of 0 ends a wait",
        "all weights are above it",
        *KEPT_CLAIMS,
        " or (claim.limit == 0 and asked_again):",
        ":",
        *GATE,
    ),
    worker(
        "a limit of 0 ends no wait",
        "it is one of this moment",
        *KEPT_CLAIMS,
        " or (claim.limit == 0 and asked_again):",
        " or claim.limit == 0:",
        *GATE,
    ),
    lua(
        "a call that is sent to other claims leaves what it has written",
        "the next call of that key finds it",
        "acquire_slow_path",
        "        holders.update_index(at)\n    end\n    return {epoch",
        "    end\n    return {epoch",
        tests=("tests/stores/test_redis.py", "-k", "none_stays_of_a_call"),
    ),
    postgresql(
        "waits are named in the order of their session",
        "all are in one transaction",
        "sessions.py",
        "sorted(waits[:NAMED], key=lambda wait: wait.ticket.nonce)",
        "list(waits[:NAMED])",
        tests=(RACE[0], "-k", "in_another_order"),
    ),
    postgresql(
        "a call fails where another had the wait, when it is refused",
        "its worker tries again",
        "v1/refuse.sql",
        "FOR tries IN 1..2 LOOP",
        "FOR tries IN 2..2 LOOP",
        tests=(RACE[0], "-k", "tries_again"),
    ),
    postgresql(
        "a call fails where another had the wait, when it is attached",
        "its worker tries again",
        "v1/attach.sql",
        "FOR tries IN 1..2 LOOP",
        "FOR tries IN 2..2 LOOP",
        tests=(RACE[0], "-k", "tries_again"),
    ),
    postgresql(
        "a grant that ends at another resource takes the message along",
        "the message was sent",
        "v1/resource.sql",
        "WHERE w.id = gone.id AND w.resource = _name;\n        END IF;",
        "WHERE w.id = gone.id;\n        END IF;",
        tests=(ON_POSTGRESQL[0], "-k", "outlives_a_look"),
    ),
    worker(
        "what was asked first is released",
        "a delivery asks once",
        "worker/permits/ledger",
        "            delivery.claims = tuple(claims)\n",
        "            pass\n",
        "tests/worker/permits/test_ledger.py",
    ),
    worker(
        "what is asked again after the permit is released",
        "it was asked last",
        "worker/permits/ledger",
        "        if delivery.permit is None:\n",
        "        if True:\n",
        "tests/worker/permits/test_ledger.py",
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
        "    IF waits AND at.mine IS NOT NULL THEN\n",
        tests=(INTERRUPTED, "-k", "postgres and another"),
    ),
)
