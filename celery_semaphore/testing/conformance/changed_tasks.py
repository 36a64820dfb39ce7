"""Test tasks that come back with other claims than they wait for, because a new release was deployed."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...core.permit import Kind, MessageId, Reason, Refusal, Wait
from ...core.session import GRANT_S, HeldWait, Standing
from .acquisition import admitted, came_back, claim, parked, refused, why
from .calling import granted
from .grants import messages, reaped, released
from .session_calls import S, held, holding
from .suite import LEASE, Suite

if TYPE_CHECKING:
    from ...core.store import Store
    from ...core.ticket import Ticket
    from ..clock import Clock

FIRST = MessageId("task:0", remember_for=3600.0)
DISK = claim(of="disk")
AGAIN = MessageId("task:0", redelivered=True, remember_for=3600.0)


def fill_both(store: Store) -> None:
    """Hold the only permit of each resource, and let the session be awake."""
    admitted(store, claim(), "a")
    admitted(store, DISK, "y")
    store.ask(S)


class ChangedTasks(Suite):
    def test_a_task_that_changed_asks_anew(self, store: Store) -> None:
        """Grant one claim to a task that comes back with two."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.release("a", claim())
        both = claim() + claim(of="disk")
        permit = admitted(store, both, "b2", came_back(ticket, Kind.PARK))
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 1
        store.release(permit.holder, both)
        assert list(store.resources()) == []

    @pytest.mark.parametrize("home", ["api", "disk"])
    def test_a_promotion_in_one_of_two_lines_counts_in_both(self, store: Store, home: str) -> None:
        """Test both orders of the claims."""
        fill_both(store)
        both = claim() + DISK if home == "api" else DISK + claim()
        held(store, "first", claims=both[:1])
        ticket = held(store, "w", claims=claim() + DISK).ticket
        held(store, "w2", claims=DISK, ticket=ticket)
        store.promote([ticket], "disk")
        assert refused(store, both, "w3", holding(ticket=ticket)).position == 0

    def test_of_two_lines_the_last_claim_says_who_has_a_wait(self, store: Store) -> None:
        fill_both(store)
        ticket = held(store, "b", claims=DISK + claim()).ticket
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        for claims, standing in (
            (claim() + DISK, Standing.WAITS),
            (DISK + claim(), Standing.ELSEWHERE),
        ):
            assert store.name(S, [HeldWait(ticket, tuple(claims))]) == {ticket: standing}

    def test_a_task_that_changed_has_no_right_to_more(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "x")
        admitted(store, claim(of="disk"), "y")
        tickets = [parked(store, claim(2), holder) for holder in "bc"]
        store.release("a", claim(2))
        changed = claim(2) + claim(of="disk")
        assert why(store, changed, "b2", came_back(tickets[0], Kind.PARK)) is Reason.SATURATED
        store.release("x", claim(2))
        heavy = claim(2, weight=2)
        admitted(store, claim(2), "z")
        assert why(store, heavy, "c2", came_back(tickets[1], Kind.PARK)) is Reason.SATURATED

    @pytest.mark.parametrize("promoted", ["never", "before", "after"])
    def test_a_ticket_that_stands_in_two_lines_stops_neither(
        self, store: Store, clock: Clock, promoted: str
    ) -> None:
        """Park a task for two claims; the broker delivers it again, and it asks for the second one alone."""
        admitted(store, claim(), "a")
        admitted(store, DISK, "d")
        clock.advance(1)
        ticket = parked(store, claim() + DISK, "b", name="b")
        if promoted == "before":
            store.promote([ticket], "api")
        again = refused(store, DISK, "b2", came_back(ticket, Kind.PARK)).ticket
        assert again
        assert not store.attach(again, DISK, b"b", name="b")
        if promoted == "after":
            store.promote([ticket], "disk")
        assert not store.release("a", claim()).outgoing
        store.promote([ticket], "disk")
        grants = released(store, "d", DISK)
        store.sent(grants)
        assert messages(grants) == [b"b"]
        admitted(store, DISK, "b3", came_back(grants[0].ticket, Kind.PARK))
        store.release("b3", DISK)
        for grant in reaped(store):  # perhaps once more: copies of a task are recognised
            store.sent([grant])
            store.release(grant.ticket, DISK)
        clock.advance(2 * LEASE)
        store.reap()
        assert list(store.resources()) == []

    def test_what_is_granted_to_its_message_is_told_to_the_session_that_holds_it(
        self, store: Store
    ) -> None:
        """Park a task for two claims, and hold its redelivery for the second one alone: the first to ask runs."""
        store.ask(S)
        admitted(store, claim() + DISK, "a")
        ticket = parked(store, claim() + DISK, "b")
        assert held(store, "b2", claims=DISK, ticket=ticket).ticket == ticket
        outgoing = store.release("a", claim() + DISK).outgoing
        assert store.ask(S).granted == {ticket.nonce}
        assert messages(store.take(outgoing)) == [b"b"]

    def test_what_it_asked_once_is_forgotten_with_its_grant(
        self, store: Store, clock: Clock
    ) -> None:
        """Hold a task for two claims; a delivery to another worker asks for the second one alone."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b", claims=claim() + DISK)
        admitted(store, DISK, "d")
        refused(store, DISK, "b2", came_back(wait.ticket))
        store.release("d", DISK)
        store.release("a", claim())
        assert granted(store) == granted(store, "disk") == [wait.ticket]
        clock.advance(GRANT_S)
        store.ask(S)
        store.reap()
        assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (1, 0)
        admitted(store, DISK, "c")

    def test_other_claims_than_those_of_the_grant_prolong_nothing(
        self, store: Store, clock: Clock
    ) -> None:
        """Q4: a delivery with other claims waits for a process, and its session names those."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S / 2)
        changed = HeldWait(wait.ticket, tuple(DISK))
        assert store.ask(S, begun=[changed]).granted == {wait.ticket.nonce}
        clock.advance(GRANT_S / 2)
        assert store.ask(S, begun=[changed]).granted == frozenset()
        store.reap()
        assert granted(store) == granted(store, "disk") == []

    @pytest.mark.parametrize("taken", [True, False])
    def test_a_task_that_no_longer_waits_leaves_its_message_in_its_place(
        self, store: Store, *, taken: bool
    ) -> None:
        """Keep a message that lies in the store, though its grant was for other claims."""
        admitted(store, claim(2, weight=2), "a")
        self._waits(store, Kind.PARK)
        outgoing = store.release("a", claim(2, weight=2)).outgoing
        assert len(store.take(outgoing) if taken else outgoing) == 1
        admitted(store, claim(2), "c")
        self._is_refused_without_a_wait(store)
        seen = store.snapshot("api")
        assert (seen.waiting, [held.holder for held in seen.holders]) == (1, ["c"])
        (grant,) = reaped(store)
        assert (grant.payload, grant.token > 0) == (b"b", True)
        store.sent([grant])
        store.release(grant.ticket, claim(2))
        store.release("c", claim(2))
        assert list(store.resources()) == []

    def test_a_task_that_no_longer_waits_leaves_its_held_message_in_its_place(
        self, store: Store
    ) -> None:
        """A11: its session still asks for it, and the granted permit is free for the first in line."""
        store.ask(S)
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "d")
        ticket = self._waits(store, Kind.REQUEUE)
        assert not store.release("a", claim(2)).outgoing
        assert granted(store) == [ticket]
        self._is_refused_without_a_wait(store)
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.ticket, waiter.reachable) == (ticket, True)
        assert store.ask(S).granted == frozenset()
        assert not store.reap()
        assert store.ask(S).granted == {ticket.nonce}
        store.release(ticket, claim(2))
        store.release("d", claim(2))
        assert list(store.resources()) == []

    def _waits(self, store: Store, kind: Kind) -> Ticket:
        session = S if kind is Kind.REQUEUE else ""
        answer = store.acquire(claim(2), "b", Wait(kind, session=session), FIRST)
        assert isinstance(answer, Refusal)
        assert answer.ticket
        if kind is Kind.PARK:
            assert not store.attach(answer.ticket, claim(2), b"b")
        return answer.ticket

    def _is_refused_without_a_wait(self, store: Store) -> None:
        answer = store.acquire(claim(2, weight=2), "b2", None, AGAIN)
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.ticket, answer.occupied) == (Reason.SATURATED, None, 1)
