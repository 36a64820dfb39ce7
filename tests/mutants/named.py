"""Wrong ideas about waits that a session names, and about those that none named since the store lost something."""

from __future__ import annotations

from .epochs import SUITE, memory
from .lua import lua
from .mutant import Mutant
from .outside import ASKER, outside
from .postgresql import postgresql


def on_memory(why: str, of: str, file: str, text: str, instead: str, *, noticed_by: str) -> Mutant:
    tests = (f"{SUITE}::TestMemoryStore", "-k", noticed_by)
    return memory(why, of, file, text, instead, tests=tests)


def on_redis(why: str, of: str, file: str, text: str, instead: str, *, noticed_by: str) -> Mutant:
    return lua(why, of, file, text, instead, tests=(f"{SUITE}::TestValkeyStore", "-k", noticed_by))


def on_postgresql(
    why: str, of: str, file: str, text: str, instead: str, *, noticed_by: str
) -> Mutant:
    tests = (f"{SUITE}::TestPostgresStore", "-k", noticed_by)
    return postgresql(why, of, file, text, instead, tests=tests)


ENDED = ("a grant that has ended stays its wait's", "the session holds it, and names it")
LASTS = ("a grant that is named has ended", "its session names it once more")
KEPT = ("a grant that has ended stays when its wait is named", "it has ended")
OTHERS = ("all grants of a wait that is named end", "they are its session's")
TOLD = ("a grant that was taken back is told", "its time is over")
STANDS = ("what was in line before is in line", "the store remembers it")
HELD = ("what was in line before is held", "its session is awake")
REFUSED = ("a refusal says nothing of the epoch", "the wait was there before")
UNKNOWN = ("what the store did not know is of no epoch", "its session has just named it")
NAMED = ("what is named stays of its epoch", "it was refused then")
IN_GRACE = ("a call puts waits in transit in the grace, too", "no session has named them")
ASIDE = ("what is named stays set aside", "it is as heavy as before")

ONCE_ENDED = "whose_grant_has_ended or not_taken_up_is_granted"
FORGOTTEN = "whose_end_is_forgotten"
NOT_NAMED = "that_was_not_named or set_aside_before"

MUTANTS = (
    on_memory(
        *ENDED,
        "name",
        "        return grant.ends > state.now\n",
        "        return True\n",
        noticed_by=ONCE_ENDED,
    ),
    on_memory(
        *LASTS,
        "name",
        "        return grant.ends > state.now\n",
        "        return False\n",
        noticed_by="that_is_named_waits",
    ),
    on_memory(
        "a granted wait may be in transit",
        "it was once",
        "name",
        "    if grant:\n        return grant",
        "    if grant and not waiter.away:\n        return grant",
        noticed_by="in_transit_is_named",
    ),
    on_memory(
        *KEPT,
        "name",
        "        at.grants.pop(ticket.nonce, None)",
        "        pass",
        noticed_by=ONCE_ENDED,
    ),
    on_memory(
        *OTHERS,
        "name",
        "        at.grants.pop(ticket.nonce, None)",
        "        state.end_grant(wanted, ticket.nonce)",
        noticed_by="takes_no_grant",
    ),
    on_memory(
        *STANDS,
        "name",
        "not waiter.away and waiter.epoch == state.epoch.id",
        "not waiter.away",
        noticed_by=FORGOTTEN,
    ),
    on_memory(
        *HELD,
        "state",
        "held = waiter.epoch == self.epoch.id and self.is",
        "held = self.is",
        noticed_by=FORGOTTEN,
    ),
    on_memory(*REFUSED, "acquisition", "epoch=epoch, ", "", noticed_by="in_the_new_epoch"),
    on_memory(*NAMED, "name", "epoch=epoch, ", "", noticed_by=FORGOTTEN),
    on_memory(*ASIDE, "name", "aside=False, ", "", noticed_by="set_aside_is_named_asleep"),
    on_redis(
        *ENDED,
        "name",
        "        return ends > now\n",
        "        return true\n",
        noticed_by=ONCE_ENDED,
    ),
    on_redis(
        *LASTS,
        "name",
        "        return ends > now\n",
        "        return false\n",
        noticed_by="that_is_named_waits",
    ),
    on_redis(
        *KEPT,
        "name",
        "        holders.take_back(at, nonce) -- as E7,",
        "        -- as E7,",
        noticed_by=ONCE_ENDED,
    ),
    on_redis(
        *TOLD,
        "_line",
        "    sessions.tell(info.session, at, records.nonce_of(ticket))\n",
        "",
        noticed_by="no_answer_tells",
    ),
    on_redis(
        *STANDS,
        "name",
        "return info.epoch == epoch and not call",
        "return not call",
        noticed_by=FORGOTTEN,
    ),
    on_redis(
        *HELD, "_sessions", "info.epoch == epoch and sessions", "sessions", noticed_by=FORGOTTEN
    ),
    on_redis(
        *REFUSED,
        "_own_wait",
        "asked.session, asked.epoch = session, epoch",
        "asked.session = session",
        noticed_by="new_epoch",
    ),
    on_redis(
        *UNKNOWN, "name", "epoch = epoch, names", "names", noticed_by="what_stands_again_is_granted"
    ),
    on_redis(
        *NAMED,
        "name",
        "        known.epoch = epoch\n",
        "",
        noticed_by=FORGOTTEN,
    ),
    on_redis(
        "what was set aside before is held",
        "its session is awake",
        "reap",
        "if not sessions.reach(info) then",
        "if info.session and not sessions.is_awake(info.session) then",
        noticed_by=NOT_NAMED,
    ),
    on_postgresql(
        *ENDED, "v1/name.sql", "\n        AND p.ends > _m.now);", ");", noticed_by=ONCE_ENDED
    ),
    on_postgresql(
        *LASTS,
        "v1/name.sql",
        "    RETURN EXISTS (",
        "    RETURN false AND EXISTS (",
        noticed_by="that_is_named_waits",
    ),
    on_postgresql(
        *KEPT,
        "v1/name.sql",
        "ARRAY[known.resource], _m.now);",
        "'{}', _m.now);",
        noticed_by=ONCE_ENDED,
    ),
    on_postgresql(
        *STANDS, "v1/name.sql", " AND _wait.epoch = _m.epoch;", ";", noticed_by=FORGOTTEN
    ),
    on_postgresql(
        *HELD, "v1/sessions.sql", "_epoch <> _m.epoch OR NOT", "NOT", noticed_by=FORGOTTEN
    ),
    on_postgresql(
        *REFUSED, "v1/refuse.sql", "session, _m.epoch,\n", "session, 0,\n", noticed_by="new_epoch"
    ),
    on_postgresql(
        *UNKNOWN,
        "v1/name.sql",
        "_session, m.epoch,\n",
        "_session, 0,\n",
        noticed_by="what_stands_again_is_granted",
    ),
    on_postgresql(
        *NAMED, "v1/name.sql", "SET epoch = _m.epoch, state", "SET state", noticed_by=FORGOTTEN
    ),
    on_postgresql(
        "what was set aside before is held",
        "its session is awake",
        "v1/sessions.sql",
        "(aside.session, aside.epoch, _m)",
        "(aside.session, _m.epoch, _m)",
        noticed_by=NOT_NAMED,
    ),
    on_postgresql(
        "what stands in mid-line is held",
        "its session is awake",
        "v1/line.sql",
        "(each.session, each.epoch, _m)",
        "(each.session, _m.epoch, _m)",
        noticed_by=f"{FORGOTTEN} or {NOT_NAMED}",
    ),
    on_postgresql(
        "the short way grants to whoever was first before",
        "its session is awake",
        "v1/pass_on.sql",
        "AND head.epoch = e.id AND",
        "AND",
        noticed_by=FORGOTTEN,
    ),
    on_postgresql(
        "the short way leaves whoever was next before",
        "its session is awake",
        "v1/pass_on.sql",
        "OR next.epoch = e.id AND",
        "OR",
        noticed_by=NOT_NAMED,
    ),
    on_memory(
        *IN_GRACE,
        "handing_on",
        "head = None if state.in_grace else state.first(at)",
        "head = state.first(at)",
        noticed_by="no_call_puts",
    ),
    on_redis(
        *IN_GRACE,
        "_hand_on",
        "if home.no_waiters or in_grace then",
        "if home.no_waiters then",
        noticed_by="no_call_puts",
    ),
    on_postgresql(
        *IN_GRACE,
        "v1/hand_on.sql",
        "IF at.waits AND NOT _m.in_grace THEN",
        "IF at.waits THEN",
        noticed_by="no_call_puts",
    ),
    on_redis(
        "what is put back is due when it was",
        "only its grant is gone",
        "_line",
        "    info.due = sessions.reach(info) and info.due or now\n",
        "",
        noticed_by="keeps_its_rank_where",
    ),
    outside(
        "calls hear nothing of a new epoch",
        "they are in line",
        "core/asker",
        " or reply.epoch != self._epoch",
        "",
        f"{ASKER}::test_a_new_epoch_calls_all_once",
    ),
    outside(
        "calls hear of an epoch again and again",
        "it is new",
        "core/asker",
        "self._missed, self._epoch = False, reply.epoch",
        "self._missed = False",
        f"{ASKER}::test_a_new_epoch_calls_all_once",
    ),
    outside(
        "the first epoch is new",
        "no answer came before",
        "core/asker",
        "                self._epoch = self._store.epoch\n",
        "",
        f"{ASKER}::test_a_call_is_called_when_it_was_granted",
    ),
)
