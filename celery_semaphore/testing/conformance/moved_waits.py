"""Test a wait that moves to the line of another resource, or has a record or a grant at each of two."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...core.permit import Kind
from ...core.session import GRANT_S, HeldWait, Standing
from .acquisition import admitted, came_back, claim, parked, refused
from .calling import granted
from .changed_tasks import DISK, fill_both
from .grants import attached, messages, reaped, released
from .session_calls import S, T, held, holding
from .suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from ...core.permit import Claim
    from ...core.store import Store
    from ...core.ticket import Ticket
    from ..clock import Clock


def of_disk(limit: int, *, weight: int = 1) -> list[Claim]:
    return claim(limit, of="disk", weight=weight)


def let_one_give_way(store: Store, clock: Clock) -> None:
    """Set up a line so that the release of "a" moves "w" to the place of "w2", behind which "z" fits."""
    admitted(store, of_disk(3) + claim(), "a")
    admitted(store, of_disk(3), "x")
    store.ask(S)
    ticket = parked(store, claim() + of_disk(3, weight=3), "w")
    held(store, "w2", claims=of_disk(2, weight=2), ticket=ticket)
    clock.advance(0.001)
    parked(store, of_disk(2), "z")


def let_one_give_way_in_a_second_call(store: Store, clock: Clock) -> None:
    """Set up the same for the release of "h": its first call lacks the resources of "needs all"."""
    of_net = claim(of="net")
    admitted(store, of_net, "a")
    clock.advance(LEASE - 5)
    admitted(store, claim(), "h")
    admitted(store, of_disk(3), "x")
    store.ask(S)
    ticket = parked(store, of_net + of_disk(3, weight=3), "w")
    held(store, "w2", claims=of_disk(2, weight=2), ticket=ticket)
    clock.advance(0.001)
    parked(store, of_disk(2), "z")
    clock.advance(0.001)
    parked(store, claim() + of_disk(2) + of_net, "needs all")
    clock.advance(5)  # the lease of "a" is over


def grant_twice(store: Store, clock: Clock) -> Ticket:
    """Park a message in each line, promote the ticket in the first one, and send both; return the ticket.

    The grant with the promotion is the earlier one.
    """
    fill_both(store)
    ticket = parked(store, claim(), "w")
    assert refused(store, DISK, "w2", came_back(ticket, Kind.PARK)).ticket == ticket
    assert attached(store, ticket, DISK, b"w2") == []
    store.promote([ticket], "api")
    store.sent(released(store, "a", claim()))
    clock.advance(0.5)
    store.sent(released(store, "y", DISK))
    return ticket


class MovedWaits(Suite):
    def test_a_wait_that_moves_leaves_what_a_later_refusal_left(self, store: Store) -> None:
        """Let a task wait for both claims, come back for one of them, and park its message there."""
        fill_both(store)
        ticket = held(store, "b", claims=DISK + claim()).ticket
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert attached(store, ticket, claim(), b"b2") == []
        assert released(store, "y", DISK) == []
        assert store.snapshot("disk").waiting == 0
        assert [each.kind for each in store.snapshot("api").waiters] == [Kind.PARK]
        assert messages(released(store, "a", claim())) == [b"b2"]

    def test_a_message_that_moves_takes_the_place_of_one_that_is_held(self, store: Store) -> None:
        """H8: the store does not know whether a session still holds its message; the one in the store is sure."""
        fill_both(store)
        ticket = parked(store, claim() + DISK, "b")
        held(store, "b2", claims=DISK, ticket=ticket)
        assert released(store, "a", claim()) == []
        assert store.name(S, [HeldWait(ticket, tuple(DISK))]) == {ticket: Standing.ELSEWHERE}
        assert messages(released(store, "y", DISK)) == [b"b"]

    def test_a_message_that_moves_takes_the_place_of_one_in_transit(self, store: Store) -> None:
        """H8: the delivery that was refused there may be the one whose message is here by now."""
        fill_both(store)
        ticket = parked(store, claim(), "b")
        assert refused(store, DISK, "b2", came_back(ticket)).ticket == ticket
        assert attached(store, ticket, DISK + claim(), b"b3") == []
        assert released(store, "a", claim()) == []
        assert messages(released(store, "y", DISK)) == [b"b3"]

    def test_a_message_that_moves_waits_for_the_end_of_a_grant(
        self, store: Store, clock: Clock
    ) -> None:
        """H8, E7: the session that held the granted wait may be gone. Its grant ends, and the message is sent."""
        fill_both(store)
        ticket = parked(store, claim() + DISK, "b")
        held(store, "b2", claims=DISK, ticket=ticket)
        assert released(store, "y", DISK) == released(store, "a", claim()) == []
        assert store.ask(S).granted == frozenset()
        assert store.snapshot("disk").waiting == 0
        clock.advance(GRANT_S)
        assert messages(reaped(store)) == [b"b"]

    def test_a_message_that_moves_goes_with_a_grant_that_is_taken_up(self, store: Store) -> None:
        """H8, A10: its session was told of the grant before."""
        fill_both(store)
        ticket = parked(store, claim() + DISK, "b")
        held(store, "b2", claims=DISK, ticket=ticket)
        assert released(store, "y", DISK) == []
        assert store.ask(S).granted == {ticket.nonce}
        assert released(store, "a", claim()) == []
        admitted(store, DISK, "b2", holding(ticket=ticket))
        assert released(store, "b2", DISK) == []
        assert list(store.resources()) == []

    def test_a_message_that_moves_lets_others_pass(self, store: Store, clock: Clock) -> None:
        """H8: it took the place of a wait that blocked the line, and is set aside: what is behind fits, at once."""
        let_one_give_way(store, clock)
        assert messages(released(store, "a", of_disk(3) + claim())) == [b"z"]

    def test_a_message_that_moves_in_a_second_call_lets_others_pass(
        self, store: Store, clock: Clock
    ) -> None:
        """H7, H8: the line that is tried again is not of the resource that was released."""
        let_one_give_way_in_a_second_call(store, clock)
        assert messages(released(store, "h", claim())) == [b"z"]

    def test_a_message_that_moves_gives_way_to_another(self, store: Store) -> None:
        """H8: of two messages the one stays that was parked in this line."""
        fill_both(store)
        ticket = parked(store, claim() + DISK, "b")
        assert refused(store, DISK, "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert attached(store, ticket, DISK, b"b2") == []
        assert released(store, "a", claim()) == []
        assert messages(released(store, "y", DISK)) == [b"b2"]

    def test_a_message_that_moves_is_parked_anew(self, store: Store) -> None:
        """H8: a newer delivery was refused, and its message replaces the one that moved."""
        fill_both(store)
        ticket = parked(store, claim() + DISK, "b")
        assert refused(store, DISK, "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert released(store, "a", claim()) == []
        assert attached(store, ticket, DISK, b"b2") == []
        assert messages(released(store, "y", DISK)) == [b"b2"]

    @pytest.mark.parametrize("kind", [Kind.PARK, Kind.REQUEUE])
    def test_a_wait_that_moves_to_its_grant_is_not_in_line(
        self, store: Store, clock: Clock, kind: Kind
    ) -> None:
        """H8: otherwise a second permit would be granted while another message is on its way with the first."""
        admitted(store, DISK, "d")
        store.ask(S)
        both = claim() + DISK
        if kind is Kind.PARK:
            ticket = parked(store, both, "b")
        else:
            ticket = held(store, "b", claims=both).ticket
        admitted(store, claim(), "a")
        assert not store.attach(ticket, claim(), b"b again")
        store.sent(released(store, "a", claim()))
        assert released(store, "d", DISK) == []
        seen = store.snapshot("api")
        assert (granted(store), seen.waiting, store.snapshot("disk").waiting) == ([ticket], 0, 0)
        assert store.ask(S).granted == ({ticket.nonce} if kind is Kind.REQUEUE else set())
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == ([b"b"] if kind is Kind.PARK else [])

    def test_a_wait_that_moves_gives_way_to_a_later_one(self, store: Store) -> None:
        """H8: neither has a message in the store; the session that was refused last has one."""
        fill_both(store)
        store.ask(T)
        ticket = held(store, "b", claims=claim() + DISK).ticket
        held(store, "b2", T, claims=DISK, ticket=ticket)
        store.release("a", claim())
        store.release("y", DISK)
        assert store.ask(S).granted == frozenset()
        assert store.ask(T).granted == {ticket.nonce}

    def test_a_wait_that_moves_keeps_its_promotion(self, store: Store, clock: Clock) -> None:
        """Promote the wait in the line where it stands by its older claims."""
        fill_both(store)
        first = held(store, "first").ticket
        clock.advance(1)
        ticket = held(store, "w", claims=DISK + claim()).ticket
        held(store, "w2", claims=claim(), ticket=ticket)
        store.promote([ticket], "disk")
        store.release("y", DISK)
        waiting = [each.ticket for each in store.snapshot("api").waiters]
        assert waiting == [ticket.promoted(), first]

    @pytest.mark.parametrize("promoted_at", ["api", "disk"])
    def test_a_message_that_moves_keeps_both_promotions(
        self, store: Store, promoted_at: str
    ) -> None:
        """Promote the message, or the wait whose place it takes."""
        fill_both(store)
        first = held(store, "first", claims=DISK).ticket
        ticket = parked(store, claim() + DISK, "w")
        held(store, "w2", claims=DISK, ticket=ticket)
        store.promote([ticket], promoted_at)
        assert released(store, "a", claim()) == []
        waiting = [each.ticket for each in store.snapshot("disk").waiters]
        assert waiting == [ticket.promoted(), first]
        assert messages(released(store, "y", DISK)) == [b"w"]

    def test_a_message_is_parked_anew_with_the_rank_of_another_line(self, store: Store) -> None:
        """Promote the ticket where a second delivery waits, then park it where the first one did."""
        fill_both(store)
        ticket = parked(store, DISK, "w")
        held(store, "w2", claims=claim(), ticket=ticket)
        store.promote([ticket], "api")
        assert attached(store, ticket, claim() + DISK, b"w3") == []
        waiting = [each.ticket for each in store.snapshot("disk").waiters]
        assert waiting == [ticket.promoted()]
        assert released(store, "y", DISK) == []
        assert messages(released(store, "a", claim())) == [b"w3"]

    def test_a_message_is_parked_anew_with_the_rank_of_an_earlier_grant(
        self, store: Store, clock: Clock
    ) -> None:
        """Send two deliveries with grants of their own, one of them promoted; each grant has too little weight."""
        ticket = grant_twice(store, clock)
        heavier = claim(5, weight=2) + of_disk(5, weight=2)
        assert attached(store, ticket, heavier, b"w3") == []
        waiting = [each.ticket for at in ("api", "disk") for each in store.snapshot(at).waiters]
        assert waiting == [ticket.promoted()]

    def test_a_refusal_gives_the_rank_of_an_earlier_grant(self, store: Store, clock: Clock) -> None:
        """Let the task come back with more weight than may be held."""
        ticket = grant_twice(store, clock)
        heavier = claim(1, weight=2) + of_disk(1, weight=2)
        assert (
            refused(store, heavier, "w3", came_back(ticket, Kind.PARK)).ticket == ticket.promoted()
        )

    def test_a_wait_that_moves_leaves_a_grant(self, store: Store) -> None:
        """Grant the claims that the task asked for last; its session learns of the grant."""
        fill_both(store)
        ticket = held(store, "b", claims=DISK + claim()).ticket
        held(store, "b2", claims=claim(), ticket=ticket)
        store.release("a", claim())
        granted_now = store.ask(S).granted
        store.release("y", DISK)
        assert store.ask(S).granted == granted_now == {ticket.nonce}
        assert store.snapshot("disk").waiting == 0
