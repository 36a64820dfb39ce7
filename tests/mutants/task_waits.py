"""Wrong ideas about how the waits of a task are found by its id."""

from __future__ import annotations

from .mutant import Group

WAITS_OF = (
    "it_is_found or found_until or of_its_last_refusal or several_waits_of_one_task or at_most_so_many or begin_alike"
    " or have_any_characters or lasts_in_the_grace or forgot_is_not_found or released_wait"
)
CONFORMANCE = "tests/stores/test_conformance.py"

lua = Group(
    "task_waits",
    "celery_semaphore/stores/redis/lua",
    ".lua",
    (f"{CONFORMANCE}::TestValkeyStore", "-k", WAITS_OF),
)
client = Group(
    "task_waits",
    "celery_semaphore/stores/redis",
    tests=(f"{CONFORMANCE}::TestValkeyStore", "-k", WAITS_OF),
)
engine = Group(
    "task_waits",
    "celery_semaphore/stores/engine",
    tests=(f"{CONFORMANCE}::TestMemoryStore", "-k", WAITS_OF),
)
postgresql = Group(
    "task_waits",
    "celery_semaphore/stores/postgresql/v1",
    ".sql",
    (f"{CONFORMANCE}::TestPostgresStore", "-k", WAITS_OF),
)
ops = Group("task_waits", "celery_semaphore/ops", tests=("tests/ops/test_why.py",))
OF_POSTGRESQL = ("tests/stores/postgresql/test_waits_of.py",)

MUTANTS = (
    lua(
        "claims that changed stand beside those of before",
        "a set takes both, and a hash took one",
        "_waits",
        '        if before then\n            call("ZREM", CLAIMS, before)\n        end\n',
        "",
    ),
    lua(
        "the claims of a wait that is over stay",
        "its record is gone, so nobody finds them; but they are never deleted",
        "_waits",
        '    if entry then\n        call("ZREM", CLAIMS, entry)\n    end\n',
        "",
        tests=("tests/stores/test_grants.py", "-k", "no_claims_are_left"),
    ),
    lua(
        "a grant lasts until a call has noticed its end",
        "the server has it still",
        "where",
        "if granted_until and not is_over(granted_until, true) then",
        "if granted_until then",
    ),
    lua(
        "a message that was sent in vain waits",
        "its record is here",
        "where",
        "    elseif waits.was_sent(at, nonce, info) then\n        return nil\n",
        "",
    ),
    lua(
        "an ended wait whose message was taken is in transit",
        "its message is on its way; but no broker has it yet",
        "where",
        'return has_message and "ended" or "in transit"',
        'return call("ZSCORE", at.outbox, nonce) and "ended" or "in transit"',
    ),
    lua(
        "a parked wait whose grant is over is in transit",
        "it is not in the set of those in line",
        "where",
        '    elseif granted_until and has_message then\n        return "in line"\n',
        "",
    ),
    client(
        "an id that begins alike is the same task",
        "the server has looked for it",
        "waits_of",
        'if text(nonce).rpartition(":")[0] == task_id and len',
        "if len",
    ),
    client(
        "one call finds all",
        "no task has so many waits; but others have ids that begin alike",
        "waits_of",
        "        if len(entries) < FOUND:\n            break\n",
        "        break\n",
        tests=("tests/stores/test_waits.py", "-k", "begin_alike"),
    ),
    postgresql(
        "one digest is one task",
        "16 bits are few",
        "waits_of",
        "    AND celery_semaphore.v1_task_of(w.nonce) = _task AND stands.state IS NOT NULL\n",
        "    AND stands.state IS NOT NULL\n",
        tests=OF_POSTGRESQL,
    ),
    postgresql(
        "all waits are read",
        "the task is compared anyway",
        "waits_of",
        "w.id BETWEEN celery_semaphore.v1_first_id(_task) AND celery_semaphore.v1_last_id(_task)\n    AND ",
        "",
        tests=OF_POSTGRESQL,
    ),
    postgresql(
        "a grant ends in the grace",
        "its time is over",
        "waits_of",
        "        AND (NOT celery_semaphore.v1_is_over(p.ends, true, m) OR m.in_grace)\n",
        "        AND NOT celery_semaphore.v1_is_over(p.ends, true, m)\n",
    ),
    postgresql(
        "the first in line is told for each",
        "those before it do not count",
        "waits_of",
        "        AND (other.urgency, other.place, other.nonce) < (w.urgency, w.place, w.nonce)\n",
        "        AND false\n",
    ),
    engine(
        "a kept wait whose grant is over stands in line",
        "no call has put it in transit yet",
        "waits_of",
        "if wait.in_transit or (grant and wait.payload is None):",
        "if wait.in_transit:",
    ),
    engine(
        "a grant that is over lasts",
        "it is in the table",
        "waits_of",
        "if grant and not state.is_over(grant):",
        "if grant:",
    ),
    ops(
        "a task of which no worker knows is not looked for",
        "its semaphores are not known; but its worker may be lost, and its permit last",
        "task_finder",
        "wanted = self.semaphores_of(name) if name else None",
        "wanted = self.semaphores_of(name) if name else ()",
    ),
    ops(
        "a grant is a permit that is held",
        "both are among the holders",
        "task_finder",
        "if not held.granted and task_id_of(held.holder) == task_id:",
        "if held.holder.startswith(task_id):",
    ),
)
