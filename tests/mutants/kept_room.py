"""Wrong ideas about the room that a wait keeps while another of its claims is saturated (H12)."""

from __future__ import annotations

from functools import partial

from .epochs import SUITE, memory as in_memory
from .lua import lua as on_redis
from .mutant import Mutant

NOTHING = ("the hand-on keeps nothing", "a wait is tried again with each release")
TURN = ("room is kept whatever the turn takes", "the wait was first")
RANK = ("kept room is in use for all", "nobody may take it")
ITSELF = ("kept room is in use for the wait itself", "it is taken")
ANEW = ("what another move ends is not tried again", "its resource is not this one")
PAUSED = ("room is kept for a pause, too", "it may end soon")
GRANTED = ("a grant leaves kept room", "its time ends it")
OFTEN = ("room is kept where permits come often", "its turn comes soon")
TWICE = ("permits may come as often as where it is refused", "twice as often is too often")
WEIGHTS = ("the weights of both claims are taken for each other", "they are mostly the same")
LIMITS = ("the limits of both claims are taken for each other", "they are mostly the same")
UNKNOWN = ("permits are held for a second where none was released", "it is so elsewhere")
TRANSIT = ("waits in transit count for a turn", "they have places before it")
AGAIN = ("a call that asks again ends its kept room", "each acquire does")
ADMITTED = ("an acquire that is admitted leaves kept room", "its time ends it")
TIMED_OUT = ("a call that has timed out leaves kept room", "it may ask again")
ASKED = ("an acquire of the wait leaves kept room", "its time ends it")
NOT_DUE = ("an acquire of the wait lets the room idle", "the next release hands on")
GIVEN_UP = ("a wait that is given up leaves kept room", "its time ends it")
BACK = ("kept room outlasts a clock that steps back", "its time comes")
LONG = ("kept room lasts for as long as permits are held", "its turn takes so long")
ALL = ("thousands of waits keep room", "there is room for them")

MANY = "of_many_waits"
TURNS = "several_claims_has_its_turn"
SOON = "if_its_turn_comes_soon or time_of_both or before_it_only"
RANKS = "keep_room_for_each_other or task_takes_it"
MOVES = "another_move or refusal_without_an_end"
WITHOUT_END = "above_the_limit_it_keeps or refusal_without_an_end or a_pause_refuses"
ENDS = "ends_it or asking_again or ends_all_of_them"
STEPS = "steps_back_ends_it or no_longer_than_a_lease"
TIME = "its_time_ends or after_its_time"


def memory(*parts: str) -> Mutant:
    """Make a mutant; the last part selects the tests that should notice."""
    *mutant, tests = parts
    return in_memory(*mutant, tests=(f"{SUITE}::TestMemoryStore", "-k", tests))


def lua(*parts: str) -> Mutant:
    *mutant, tests = parts
    return on_redis(*mutant, tests=(f"{SUITE}::TestValkeyStore", "-k", tests))


SHORT = partial(on_redis, tests=("tests/stores/test_kept_room.py", "-k", "valkey"))

MUTANTS = (
    memory(
        *NOTHING, "kept_room", "in others if reason is Reason.SATURATED else ():", "in ():", TURNS
    ),
    memory(*TURN, "kept_room", " if turn <= 2 * mean_here else None", "", SOON),
    memory(
        *OFTEN,
        "kept_room",
        "if refusing.weight * mean_there * limit_here > 2 * other.weight * mean_here * limit_there:",
        "if False:",
        SOON,
    ),
    memory(
        *LIMITS,
        "kept_room",
        "mean_there * limit_here > 2 * other.weight * mean_here * limit_there:",
        "mean_there * limit_there > 2 * other.weight * mean_here * limit_here:",
        SOON,
    ),
    memory(
        *UNKNOWN,
        "kept_room",
        "= known[0], known[-1]",
        "= (DEFAULT_MEAN if at.mean is None else at.mean for at in (there, here))",
        SOON,
    ),
    memory(
        "a mean of 0 is not known",
        "no task ends in the microsecond in which it began",
        "kept_room",
        "if at.mean is not None]",
        "if at.mean]",
        SOON,
    ),
    memory(
        *TRANSIT,
        "kept_room",
        "sum(each.in_line for each in there.line(before=waiter.ticket))",
        "len(there.line(before=waiter.ticket))",
        SOON,
    ),
    memory(
        "a turn is one of weight 1",
        "its place in the line counts",
        "kept_room",
        "+ refusing.weight)",
        "+ 1)",
        SOON,
    ),
    memory(*RANK, "resource", " if room.ticket.rank < ticket.rank]", "]", RANKS),
    memory(
        *ANEW,
        "handing_on",
        "            return keep_room(state, waiter, claim, reason)\n",
        "            keep_room(state, waiter, claim, reason)\n            return []\n",
        MOVES,
    ),
    memory(*PAUSED, "kept_room", " if reason is Reason.SATURATED else ()", "", WITHOUT_END),
    memory(
        *GRANTED,
        "handing_on",
        "    end_kept_room(state, waiter.resource_claims, waiter.nonce)\n    token",
        "    token",
        ENDS,
    ),
    memory(
        *ASKED,
        "acquisition",
        "in end_kept_room(self.state, self.wanted, self.ticket.nonce):",
        "in ():",
        ENDS,
    ),
    memory(
        *AGAIN,
        "acquisition",
        "if not (wait.kind is Kind.BLOCK and reason is Reason.SATURATED):",
        "if wait:",
        ENDS,
    ),
    memory(
        *ADMITTED,
        "acquisition",
        "        self._end_kept_room()\n        self.messages.admitted(",
        "        self.messages.admitted(",
        ENDS,
    ),
    memory(
        *TIMED_OUT, "acquisition", "Kind.BLOCK and reason is Reason.SATURATED)", "Kind.BLOCK)", ENDS
    ),
    memory(
        *GIVEN_UP,
        "release",
        "    end_kept_room(state, wanted, ticket.nonce)\n",
        "",
        ENDS,
    ),
    memory(
        "a wait that its holder gives up leaves kept room",
        "its time ends it",
        "release",
        "        end_kept_room(state, wanted, holder)\n",
        "",
        ENDS,
    ),
    memory(*BACK, "resource", "if now < room.ends <= furthest}", "if now < room.ends}", STEPS),
    memory(
        *LONG,
        "kept_room",
        "min(state.now + lasts, state.epoch.furthest(state.now))",
        "state.now + lasts",
        STEPS,
    ),
    memory(
        *ALL, "kept_room", "if len(at.rooms_before(waiter.ticket)) < KEPT_ROOMS:", "if at:", MANY
    ),
    lua(*ALL, "_kept_room", "if before >= KEPT_ROOMS then", "if false then", MANY),
    lua(
        *NOTHING, "_hand_on", 'ipairs(reason == "saturated" and claims or {})', "ipairs({})", TURNS
    ),
    lua(
        *TURN,
        "_hand_on",
        "return turn <= 2 * here and KEPT_ROOM + 2 * math.floor(turn) or nil",
        "return KEPT_ROOM + 2 * math.floor(turn)",
        SOON,
    ),
    lua(*TWICE, "_hand_on", "* limit > 2 * other.weight", "* limit > other.weight", SOON),
    lua(
        *WEIGHTS,
        "_hand_on",
        "if refusing.weight * there * limit > 2 * other.weight * here",
        "if other.weight * there * limit > 2 * refusing.weight * here",
        SOON,
    ),
    lua(
        *UNKNOWN,
        "_hand_on",
        "mean_of(refusing.at) or mean_of(other.at) or 1000000",
        "mean_of(refusing.at) or 1000000",
        SOON,
    ),
    lua(
        *TRANSIT,
        "_hand_on",
        "line.ahead(refusing.at, head)",
        "line.position(refusing.at, head)",
        SOON,
    ),
    lua(
        *RANK,
        "_kept_room",
        " and (room.rank < rank or room.rank == rank and room.nonce < nonce) then",
        " then",
        RANKS,
    ),
    lua(
        *ITSELF,
        "_kept_room",
        "if room.nonce ~= nonce and (room.rank < rank or room.rank == rank and room.nonce < nonce) then",
        "if room.rank < rank or room.rank == rank and room.nonce <= nonce then",
        "from_itself or its_admission_ends_it",
    ),
    lua(*ANEW, "_hand_on", "again = again or not keeps[at]", "again = again", MOVES),
    lua(
        *PAUSED,
        "_hand_on",
        'ipairs(reason == "saturated" and claims or {})',
        "ipairs(claims)",
        WITHOUT_END,
    ),
    lua(
        *GRANTED,
        "_hand_on",
        "    kept_room.finish(resources, nonce)\n    local parked",
        "    local parked",
        ENDS,
    ),
    lua(
        *NOT_DUE,
        "_own_wait",
        "own_wait.nonce)) do\n        index.mark_in_use(at, now)\n",
        "own_wait.nonce)) do\n        index.mark_in_use(at)\n",
        ENDS,
    ),
    lua(
        *AGAIN,
        "_own_wait",
        'if kind ~= "block" or reason ~= "saturated" then',
        "if true then",
        ENDS,
    ),
    lua(
        *ADMITTED,
        "acquire_slow_path",
        "own_wait.forget() -- A10 or A14\nown_wait.end_kept_room()\n",
        "own_wait.forget() -- A10 or A14\n",
        ENDS,
    ),
    lua(
        *TIMED_OUT,
        "_own_wait",
        'if kind ~= "block" or reason ~= "saturated" then',
        'if kind ~= "block" then',
        ENDS,
    ),
    lua(*GIVEN_UP, "release_slow_path", "    kept_room.finish(resources, wait)\n", "", ENDS),
    lua(
        *BACK,
        "_kept_room",
        "if now < room.ends and room.ends <= furthest() then",
        "if now < room.ends then",
        STEPS,
    ),
    lua(
        *LONG,
        "_hand_on",
        "math.min(now + lasts, furthest())",
        "now + lasts",
        STEPS,
    ),
    lua(
        "the end of kept room is not due",
        "each resource is looked at, once in a lease",
        "_kept_room",
        "    index.mark_in_use(at, ends)\n",
        "    index.mark_in_use(at)\n",
        TIME,
    ),
    lua(
        "a look forgets when kept room ends",
        "it was due once",
        "_kept_room",
        "        first = math.min(first or room.ends, room.ends)\n",
        "",
        TIME,
    ),
    SHORT(
        "the short way does not know of kept room",
        "there is no wait",
        "acquire",
        "simple and not at.kept and call(",
        "simple and call(",
    ),
    SHORT(
        "kept room that is over stays in its ledger",
        "it does not count",
        "_kept_room",
        "    if at.has_ended_rooms then\n",
        "    if false then\n",
    ),
)
