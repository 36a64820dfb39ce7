"""Test sessions: a permit is granted to the first in line with an awake session (docs/architecture.md, 4, 5 and 8)."""

# ruff: noqa: PLR2004, S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ...core.permit import Kind, Reason, Wait
from ...core.session import GRANT_S, HeldWait, Standing
from ...core.ticket import TicketFields, nonce_of
from .calling import BOTH, granted
from .suite import (
    LEASE,
    TAKE_UP,
    Suite,
    admitted,
    claim,
    limited,
    messages,
    parked,
    refused,
    released,
    why,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.permit import Claim
    from ...core.session import Turns
    from ...core.store import Store
    from ..clock import Clock

S, T = "worker-1", "worker-2"
HOUR = 3600.0


def holding(session: str = S, ticket: str | None = None, **how: Any) -> Wait:
    return Wait(Kind.REQUEUE, ticket, session=session, **how)


def held(
    store: Store,
    holder: str,
    session: str = S,
    claims: Sequence[Claim] = tuple(claim()),
    **how: Any,
) -> HeldWait:
    """Let a task wait; this session holds its message."""
    ticket = refused(store, claims, holder, holding(session, **how)).ticket
    assert ticket
    return HeldWait(ticket, tuple(claims), keeps=how.get("keeps", 0.0))


def tickets(waits: Sequence[HeldWait]) -> list[str]:
    return [wait.ticket for wait in waits]


def nonces(*waits: HeldWait) -> frozenset[str]:
    return frozenset(nonce_of(wait.ticket) for wait in waits)


def reachable(store: Store, resource: str = "api") -> list[str]:
    return [waiter.id for waiter in store.snapshot(resource).waiters if waiter.reachable]


def looked_at(store: Store) -> None:
    """Let the store look at the line; a reap may find that it need not."""
    assert not store.release("unknown", claim())


def lived(store: Store, clock: Clock, seconds: float, *holders: str) -> Turns:
    """Let time pass, while the session asks and these holders renew, three times in a lease."""
    turns = store.ask(S)
    for _ in range(round(seconds / (LEASE / 3))):
        clock.advance(LEASE / 3)
        store.renew([admitted(store, claim(), holder) for holder in holders])
        turns = store.ask(S)
    return turns


class Sessions(Suite):
    def test_a_release_grants_to_a_held_wait(self, store: Store, clock: Clock) -> None:
        """E4: no message is sent; the session learns of the grant when it asks."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert store.ask(S).granted == frozenset()
        assert not store.release("a", claim())
        (grant,) = store.snapshot("api").holders
        assert (grant.holder, grant.granted) == (wait.ticket, True)
        assert grant.expires_at == clock.now + GRANT_S
        assert store.ask(S).granted == nonces(wait)
        assert store.ask(S).granted == nonces(wait), "an answer may be lost"
        assert store.ask(T).granted == frozenset()

    def test_a_grant_is_taken_up(self, store: Store, clock: Clock) -> None:
        """E8, A10: another holder takes it up, for each delivery has its own holder."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        token = store.snapshot("api").holders[0].token
        clock.advance(GRANT_S / 2)
        permit = admitted(store, claim(), "b2", holding(ticket=wait.ticket))
        assert permit.token == token
        assert permit.expires_at == clock.now + LEASE
        assert store.ask(S).granted == frozenset()
        store.release("b2", claim())
        assert list(store.resources()) == []

    def test_a_session_says_whether_it_slept(self, store: Store, clock: Clock) -> None:
        """Q2: it is awake for a lease after it asked."""
        assert store.ask(S).slept
        clock.advance(LEASE - 0.001)
        assert not store.ask(S).slept
        clock.advance(LEASE)
        assert store.ask(S).slept
        store.sleep(S)
        assert store.ask(S).slept

    def test_awake_sessions_are_counted(self, store: Store, clock: Clock) -> None:
        store.ask(T)
        clock.advance(LEASE / 2)
        assert store.ask(S).sessions == 2
        clock.advance(LEASE / 2)
        assert store.ask(S).sessions == 1

    def test_an_answer_tells_the_epoch(self, store: Store) -> None:
        permit = admitted(store, claim(), "a")
        assert store.ask(S).epoch == permit.epoch

    def test_who_holds_it_is_shown(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.id, waiter.session, waiter.reachable) == (wait.ticket, S, True)

    def test_parked_waits_are_reachable_without_a_session(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.id, waiter.session, waiter.reachable) == (ticket, "", True)

    def test_one_line_for_all(self, store: Store, clock: Clock) -> None:
        """Grant permits to held and parked waits in the order of their arrival."""
        store.ask(S)
        admitted(store, claim(), "a")
        line = []
        for n, holder in enumerate("bcdefg"):
            line.append(parked(store, claim(), holder) if n % 2 else held(store, holder).ticket)
            clock.advance(0.001)
        holder = "a"
        for n, ticket in enumerate(line):
            sent = released(store, holder, claim())
            assert granted(store) == [ticket]
            assert [grant.ticket for grant in sent] == ([ticket] if n % 2 else [])
            kind = Kind.PARK if sent else Kind.REQUEUE
            holder = f"{n}-came"
            admitted(store, claim(), holder, Wait(kind, ticket, session=S))
        assert not store.release(holder, claim())
        assert list(store.resources()) == []

    def test_newcomers_do_not_overtake_a_session(self, store: Store, clock: Clock) -> None:
        """C5: the limit has grown, and nothing was handed on yet."""
        store.ask(S)
        admitted(store, claim(1), "a")
        wait = held(store, "b", claims=claim(1))
        clock.advance(1)
        assert why(store, claim(2), "c") is Reason.SATURATED
        assert why(store, claim(2), "d", holding()) is Reason.SATURATED
        admitted(store, claim(2), "b", holding(ticket=wait.ticket))

    def test_a_higher_priority_goes_first(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "low")
        high = held(store, "high", priority=9)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(high)

    def test_a_heavy_head_blocks_the_line(self, store: Store, clock: Clock) -> None:
        """H6: a light wait behind it gets nothing."""
        store.ask(S)
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "x")
        heavy = held(store, "heavy", claims=claim(2, weight=2))
        clock.advance(0.001)
        held(store, "light", claims=claim(2))
        store.release("a", claim(2))
        assert store.ask(S).granted == frozenset()
        store.release("x", claim(2))
        assert store.ask(S).granted == nonces(heavy)

    def test_a_raised_limit_is_handed_on_to_a_session(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        waits = []
        for holder in "bcd":
            waits.append(held(store, holder))
            clock.advance(0.001)
        assert not limited(store, 3, "api")
        assert store.ask(S).granted == nonces(*waits[:2])

    def test_it_is_granted_all_its_claims(self, store: Store) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=BOTH)
        store.release("a", BOTH)
        assert granted(store) == granted(store, "disk") == [wait.ticket]
        assert store.ask(S).granted == nonces(wait)
        admitted(store, BOTH, "b", holding(ticket=wait.ticket))
        store.release("b", BOTH)
        assert list(store.resources()) == []

    def test_refused_elsewhere_it_moves_there(self, store: Store) -> None:
        """H8: its session still learns of the grant."""
        store.ask(S)
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        wait = held(store, "b", claims=BOTH)
        store.release("a", claim())
        assert (store.snapshot("api").waiting, reachable(store, "disk")) == (0, [wait.ticket])
        store.release("x", claim(of="disk"))
        assert store.ask(S).granted == nonces(wait)

    # -- grants that are not taken up

    def test_a_grant_ends_after_two_seconds(self, store: Store, clock: Clock) -> None:
        """E7: its session asked since, so this wait alone is in transit, at its place."""
        store.ask(S)
        admitted(store, claim(), "a")
        first = held(store, "b")
        clock.advance(0.001)
        second = held(store, "c")
        store.release("a", claim())
        clock.advance(GRANT_S - 0.001)
        store.ask(S)
        assert granted(store) == [first.ticket]
        clock.advance(0.001)
        assert not store.reap()
        assert store.ask(S).granted == nonces(second)
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.id, waiter.session, waiter.reachable) == (first.ticket, S, False)
        again = refused(store, claim(), "b2", holding(ticket=first.ticket))
        assert (again.ticket, again.position) == (first.ticket, 0)

    def test_a_grant_of_several_claims_to_a_held_wait_ends_as_soon(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=BOTH)
        store.release("a", BOTH)
        clock.advance(GRANT_S - 0.001)
        assert granted(store) == granted(store, "disk") == [wait.ticket]
        clock.advance(0.001)
        store.reap()
        assert granted(store) == granted(store, "disk") == []

    def test_a_session_that_asks_no_more_sleeps(self, store: Store, clock: Clock) -> None:
        """E7: it died after it had learned of the grant, so its next wait is not granted."""
        store.ask(S)
        admitted(store, claim(), "a")
        first = held(store, "b")
        clock.advance(0.001)
        held(store, "c")
        store.ask(T)
        other = held(store, "other", T)
        store.release("a", claim())
        clock.advance(0.001)
        assert store.ask(S).granted == nonces(first)
        clock.advance(GRANT_S / 2)
        assert store.ask(T).granted == nonces()
        clock.advance(GRANT_S / 2)
        store.reap()
        assert store.ask(T).granted == nonces(other)

    def test_a_session_that_did_not_ask_sleeps(self, store: Store, clock: Clock) -> None:
        """E7: a stopped or killed worker costs two seconds once, however many waits it holds."""
        store.ask(S)
        store.ask(T)
        admitted(store, claim(), "a")
        waits = []
        for holder in "bcdefg":
            waits.append(held(store, holder))
            clock.advance(0.001)
        other = held(store, "other", T)
        store.release("a", claim())
        assert granted(store) == [waits[0].ticket]
        clock.advance(GRANT_S)
        store.reap()
        assert granted(store) == [other.ticket]
        assert reachable(store) == []
        turns = store.ask(S)
        assert (turns.slept, turns.granted) == (True, frozenset())

    def test_what_is_being_taken_up_is_not_ended(self, store: Store, clock: Clock) -> None:
        """Q4: the task waits for a process, and its worker names it in each question."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        for _ in range(5):
            clock.advance(GRANT_S - 0.001)
            assert store.ask(S, begun=[wait]).granted == nonces(wait)
            assert not store.reap()
        clock.advance(GRANT_S - 0.001)
        admitted(store, claim(), "b2", holding(ticket=wait.ticket))

    def test_of_several_claims_all_are_prolonged(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=BOTH)
        store.release("a", BOTH)
        clock.advance(GRANT_S / 2)
        store.ask(S, begun=[wait])
        clock.advance(GRANT_S / 2)
        store.reap()
        assert granted(store) == granted(store, "disk") == [wait.ticket]

    def test_another_session_prolongs_nothing(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S / 2)
        assert store.ask(T, begun=[wait]).granted == frozenset()
        clock.advance(GRANT_S / 2)
        store.reap()
        assert granted(store) == []

    def test_an_overdue_grant_is_not_told(self, store: Store, clock: Clock) -> None:
        """Leave it out of the answer though nothing was reaped yet."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S)
        assert store.ask(S, begun=[wait]).granted == frozenset()

    def test_a_grant_that_is_given_up_goes_to_the_next(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        first = held(store, "b")
        clock.advance(0.001)
        second = held(store, "c")
        store.release("a", claim())
        store.release(first.ticket, claim())
        assert store.ask(S).granted == nonces(second)

    # -- sessions that sleep

    def test_a_wait_of_a_sleeping_session_blocks_nobody(self, store: Store, clock: Clock) -> None:
        """H5, C5: newcomers and the waits behind it pass."""
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        clock.advance(0.001)
        behind = parked(store, claim(), "c")
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"c"]
        assert granted(store) == [behind]

    def test_newcomers_pass_a_sleeping_session(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(1), "a")
        held(store, "b", claims=claim(1))
        store.sleep(S)
        assert reachable(store) == []
        admitted(store, claim(2), "c")

    def test_a_lease_without_a_question(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        permit = admitted(store, claim(), "a")
        held(store, "b")
        clock.advance(LEASE / 2)
        store.renew([permit])
        behind = parked(store, claim(), "c")
        clock.advance(LEASE / 2)
        released(store, "a", claim())
        assert granted(store) == [behind]

    def test_a_refusal_does_not_wake_a_session(self, store: Store, clock: Clock) -> None:
        """E2: it comes from another process, and does not prove that the process that must ask is alive."""
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert reachable(store) == []
        clock.advance(0.001)
        behind = parked(store, claim(), "c")
        released(store, "a", claim())
        assert granted(store) == [behind]
        assert [waiter.id for waiter in store.snapshot("api").waiters] == [wait.ticket]

    def test_a_refused_call_wakes_its_session(self, store: Store) -> None:
        """Wake it, for the refused call comes from the very process that asks."""
        admitted(store, claim(), "a")
        call = refused(store, claim(), "b", Wait(Kind.BLOCK, session=S)).ticket
        assert reachable(store) == [call]
        assert not store.ask(S).slept

    def test_an_admitted_call_wakes_no_session(self, store: Store) -> None:
        """Leave it asleep, for the process has nothing to ask for."""
        admitted(store, claim(), "a", Wait(Kind.BLOCK, session=S))
        assert store.ask(S).slept

    def test_the_newest_refusal_has_it(self, store: Store) -> None:
        """E1: the message is delivered again to another worker; the first one learns nothing more of it."""
        store.ask(S)
        store.ask(T)
        admitted(store, claim(), "a")
        wait = held(store, "b", S)
        assert held(store, "b2", T, ticket=wait.ticket).ticket == wait.ticket
        store.release("a", claim())
        assert store.ask(S).granted == frozenset()
        assert store.ask(T).granted == nonces(wait)

    def test_a_wait_in_transit_keeps_its_place(self, store: Store, clock: Clock) -> None:
        """E13: it keeps its place for a lease, and is forgotten then."""
        store.set_limit(0, "api")
        store.ask(S)
        held(store, "b")
        store.sleep(S)
        looked_at(store)
        clock.advance(LEASE - 0.001)
        store.reap()
        assert store.snapshot("api").waiting == 1
        clock.advance(0.001)
        store.reap()
        assert store.snapshot("api").waiting == 0
        assert list(store.resources()) == []

    def test_who_was_refused_asleep_is_forgotten_in_mid_line(
        self, store: Store, clock: Clock
    ) -> None:
        """E2, E13: it makes no difference that another wait is before it."""
        store.ask(S)
        admitted(store, claim(), "a")
        first = held(store, "b")
        held(store, "c", T)
        lived(store, clock, 2 * LEASE, "a")
        store.reap()
        assert [waiter.id for waiter in store.snapshot("api").waiters] == [first.ticket]

    def test_it_keeps_its_place_as_long_as_the_broker_may_take(
        self, store: Store, clock: Clock
    ) -> None:
        """Redis delivers a dead worker's message again after its visibility timeout."""
        store.set_limit(0, "api")
        store.ask(S)
        wait = held(store, "b", keeps=HOUR)
        store.sleep(S)
        looked_at(store)
        clock.advance(HOUR - 0.001)
        store.reap()
        assert [waiter.id for waiter in store.snapshot("api").waiters] == [wait.ticket]
        clock.advance(0.001)
        store.reap()
        assert list(store.resources()) == []

    def test_a_held_wait_is_not_forgotten_while_its_session_asks(
        self, store: Store, clock: Clock
    ) -> None:
        """Keep it however long it waits, and whenever it was due."""
        admitted(store, claim(), "a")
        store.ask(S)
        wait = held(store, "b")
        lived(store, clock, 3 * LEASE, "a")
        store.reap()
        assert reachable(store) == [wait.ticket]
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)

    @pytest.mark.parametrize("lapsed", [False, True])
    def test_it_keeps_its_place_as_long_however_its_session_slept(
        self, store: Store, clock: Clock, *, lapsed: bool
    ) -> None:
        """Let the session be asleep at the refusal (E2), or at the end of a grant (E7)."""
        admitted(store, claim(), "a")
        if lapsed:
            store.ask(S)
        wait = held(store, "b", keeps=HOUR)
        store.release("a", claim())
        assert granted(store) == [wait.ticket] * lapsed
        clock.advance(GRANT_S * lapsed)
        store.reap()
        clock.advance(HOUR - 0.001)
        store.reap()
        assert [waiter.id for waiter in store.snapshot("api").waiters] == [wait.ticket]
        clock.advance(2)
        store.reap()
        assert list(store.resources()) == []

    def test_a_heavy_wait_in_transit_reserves_nothing(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        held(store, "heavy", claims=claim(2, weight=2))
        admitted(store, claim(2), "light")

    def test_a_held_wait_that_is_parked_needs_no_session(self, store: Store) -> None:
        """E3: its message lies in the store now."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert not store.attach(wait.ticket, claim(), b"b")
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_a_parked_wait_that_came_again_needs_no_session(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        refused(store, claim(), "b2", Wait(Kind.PARK, ticket, session=S))
        assert reachable(store) == [ticket]
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_many_of_a_dead_session_hold_up_one_call_at_most(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        for n in range(300):
            held(store, f"dead-{n}")
        clock.advance(0.001)
        behind = parked(store, claim(), "c")
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"c"]
        assert granted(store) == [behind]
        assert reachable(store) == []

    # -- what a session names

    def test_a_session_that_slept_names_what_it_holds(self, store: Store) -> None:
        """N2: a wait that it still owns stands in line again."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.sleep(S)
        looked_at(store)
        assert reachable(store) == []
        assert store.ask(S).slept
        assert reachable(store) == [], "it was put in transit at the head of the line"
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert reachable(store) == [wait.ticket]
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)

    def test_what_stands_first_by_being_named_is_granted_by_the_next_reap(
        self, store: Store
    ) -> None:
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        assert granted(store) == []
        store.ask(S)
        store.name(S, [wait])
        store.reap()
        assert store.ask(S).granted == nonces(wait)

    def test_what_the_store_does_not_know_stands_again(self, store: Store, clock: Clock) -> None:
        """N1: it has its place, its priority and its claims."""
        store.ask(S)
        permit = admitted(store, claim(), "a")
        clock.advance(10)
        later = held(store, "late")
        first = HeldWait(TicketFields("gone", 7, int(clock.now * 1e6)).text, tuple(claim()))
        earlier = HeldWait(TicketFields("old", 0, int((clock.now - 5) * 1e6)).text, tuple(claim()))
        assert set(store.name(S, [earlier, first]).values()) == {Standing.WAITS}
        line = store.snapshot("api").waiters
        assert [waiter.id for waiter in line] == tickets([first, earlier, later])
        assert [waiter.priority for waiter in line] == [7, 0, 0]
        assert store.name(S, [earlier, first]) == dict.fromkeys(
            tickets([earlier, first]), Standing.WAITS
        )
        assert store.snapshot("api").waiting == 3
        store.renew([permit])
        store.release("a", claim())
        assert store.ask(S).granted == nonces(first)

    def test_what_stands_again_is_granted_by_the_next_reap(self, store: Store) -> None:
        wait = HeldWait(TicketFields("gone", 0, 1).text, tuple(claim()))
        store.ask(S)
        store.name(S, [wait])
        store.reap()
        assert store.ask(S).granted == nonces(wait)

    def test_a_session_that_sleeps_names_in_vain(self, store: Store, clock: Clock) -> None:
        """Put its waits in transit, for as long as their places are kept."""
        store.set_limit(0, "api")
        ticket = refused(store, claim(), "b", holding(keeps=HOUR)).ticket
        known = HeldWait(ticket or "", tuple(claim()), keeps=HOUR)
        unknown = HeldWait(TicketFields("gone", 0, 1).text, tuple(claim()), keeps=HOUR)
        clock.advance(HOUR)
        store.name(S, [known, unknown])
        assert (reachable(store), store.snapshot("api").waiting) == ([], 2)
        clock.advance(HOUR - 0.001)
        store.reap()
        assert store.snapshot("api").waiting == 2
        clock.advance(0.001)
        store.reap()
        assert store.snapshot("api").waiting == 0

    def test_several_claims_stand_again(self, store: Store) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = HeldWait(TicketFields("gone", 0, 1).text, tuple(BOTH))
        store.name(S, [wait])
        store.release("a", BOTH)
        assert granted(store) == granted(store, "disk") == [wait.ticket]

    def test_what_another_session_has_is_left_to_it(self, store: Store) -> None:
        """N4: naming a wait takes it from no other session."""
        store.ask(S)
        store.ask(T)
        admitted(store, claim(), "a")
        wait = held(store, "b", T)
        assert store.name(S, [wait]) == {wait.ticket: Standing.ELSEWHERE}
        store.release("a", claim())
        assert (store.ask(S).granted, store.ask(T).granted) == (frozenset(), nonces(wait))

    def test_what_was_parked_meanwhile_is_elsewhere(self, store: Store) -> None:
        """Name one message of a task while the other lies in the store."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        assert store.name(S, [HeldWait(ticket, tuple(claim()))]) == {ticket: Standing.ELSEWHERE}
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_what_was_sent_meanwhile_is_elsewhere(self, store: Store) -> None:
        """N4: otherwise it would stand in line, too, and get a second permit."""
        store.ask(S)
        admitted(store, BOTH, "a")
        ticket = parked(store, BOTH, "b")
        store.sent(released(store, "a", BOTH))
        changed = tuple(claim(of="new") + BOTH)
        assert store.name(S, [HeldWait(ticket, changed)]) == {ticket: Standing.ELSEWHERE}
        assert store.snapshot("new").waiting == store.snapshot("api").waiting == 0

    def test_what_was_sent_too_long_ago_waits(self, store: Store, clock: Clock) -> None:
        """N1: its grant has ended, though no call has noticed that yet."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        clock.advance(TAKE_UP)
        assert store.name(S, [HeldWait(ticket, tuple(claim()))]) == {ticket: Standing.WAITS}
        assert store.snapshot("api").waiting == 1
        store.reap()
        assert store.ask(S).granted == {nonce_of(ticket)}

    def test_in_the_grace_what_was_sent_is_elsewhere_all_the_same(
        self, store: Store, clock: Clock
    ) -> None:
        """Keep its grant, for the server was away when its message came."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        clock.advance(TAKE_UP - 1)
        self.remember(store)()
        clock.advance(1)
        store.ask(S)
        assert store.name(S, [HeldWait(ticket, tuple(claim()))]) == {ticket: Standing.ELSEWHERE}

    def test_a_granted_wait_that_is_named_waits(self, store: Store) -> None:
        """N3: it keeps its grant."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert store.ask(S).granted == nonces(wait)
        assert granted(store) == [wait.ticket]

    def test_naming_many(self, store: Store) -> None:
        """Name waits at several resources in one call."""
        store.ask(S)
        waits = [
            HeldWait(TicketFields(f"{n}", 0, n + 1).text, tuple(claim(key=f"{n % 7}")))
            for n in range(500)
        ]
        assert store.name(S, waits) == dict.fromkeys(tickets(waits), Standing.WAITS)
        assert store.snapshot("api/3").waiting == 71

    # -- what it expects

    def test_turns_that_are_expected(self, store: Store, clock: Clock) -> None:
        """Q5: each answer computes (position + 1) / limit * hold anew."""
        store.ask(S)
        admitted(store, claim(), "a")
        clock.advance(4)
        store.release("a", claim())
        admitted(store, claim(), "a2")
        waits = []
        for n in range(3):
            waits.append(held(store, f"{n}"))
            clock.advance(0.001)
        first, second, third = (nonce_of(wait.ticket) for wait in waits)
        assert store.ask(S, look=[waits[2], waits[0]]).expected == {first: 4.0, third: 12.0}
        store.set_limit(2, "api")
        assert store.ask(S, look=waits).expected == {second: 2.0, third: 4.0}

    def test_a_short_hold_is_believed_at_once(self, store: Store, clock: Clock) -> None:
        """Q5: after long holds the mean would be too long for many turns; a single long hold says little."""
        turns = list[float]()
        for n, seconds in enumerate((20.0, 1.0, 24.0, 1.0)):
            store.ask(S)
            admitted(store, claim(), f"a{n}")
            wait = held(store, f"w{n}")
            turns += store.ask(S, look=[wait]).expected.values()
            clock.advance(seconds)
            store.release(f"a{n}", claim())
            store.release(wait.ticket, claim())
        assert turns == [1.0, 20.0, 1.0, 15.0]

    def test_nothing_is_expected_of_a_pause_or_of_what_does_not_wait(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        gone = HeldWait(TicketFields("gone", 0, 1).text, tuple(claim()))
        store.set_limit(0, "api")
        assert store.ask(S, look=[wait, gone]).expected == {}

    # -- what the store forgets

    def test_sessions_stand_again_in_the_grace(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        store.ask(S)
        wait = held(store, "b")
        self.forget(store)
        assert store.ask(S).slept
        store.name(S, [wait])
        store.renew([permit])
        store.reap()
        assert granted(store) == []
        clock.advance(LEASE - 1)
        store.ask(S)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)
