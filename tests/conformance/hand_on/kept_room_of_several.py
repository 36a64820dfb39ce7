"""Test waits that keep several rooms, and several waits that keep room at one resource: row H12, chapter 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.hand_on.kept_room import (
    API,
    DISK,
    PAIR,
    THIRD,
    held_before,
    held_by_session,
    keeping,
    kept,
)
from tests.conformance.hand_on.kept_room_ends import LASTS, keeping_two
from tests.conformance.sessions.session_calls import S, holding
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

ORDERS = pytest.mark.parametrize("claims", [[*PAIR, *THIRD], [*THIRD, *PAIR]])


def keeping_both(store: Store, clock: Clock, claims: list[Claim]) -> Ticket:
    """Let a wait keep room at ``api`` and ``third``; each would be granted to another wait."""
    ticket = keeping(store, clock, claims, held_by_session)
    for at, holder in ((API, "c"), (THIRD, "d")):
        clock.advance(0.001)
        parked(store, at, holder)
    assert kept(store, "api", "third") == [1, 1]
    return ticket


class KeptRoomOfSeveral(Suite):
    @ORDERS
    def test_its_own_acquire_ends_all_of_them(
        self, store: Store, clock: Clock, claims: list[Claim]
    ) -> None:
        """A20: both resources are due for a look."""
        ticket = keeping_both(store, clock, claims)
        assert why(store, claims, "pair 2", holding(S, ticket)) == "saturated"
        assert kept(store, "api", "third") == [0, 0]
        assert sorted(messages(reaped(store))) == [b"c", b"d"]

    @ORDERS
    @pytest.mark.parametrize("by", ["ticket", "holder"])
    def test_the_release_of_its_wait_ends_all_of_them(
        self, store: Store, clock: Clock, claims: list[Claim], by: str
    ) -> None:
        """R6: hand both on at once."""
        ticket = keeping_both(store, clock, claims)
        handed = released(store, ticket if by == "ticket" else "pair", claims)
        assert sorted(messages(handed)) == [b"c", b"d"]
        assert kept(store, "api", "third") == [0, 0]

    @ORDERS
    def test_its_grant_ends_all_of_them(
        self, store: Store, clock: Clock, claims: list[Claim]
    ) -> None:
        ticket = keeping_both(store, clock, claims)
        assert not released(store, "x", DISK)
        assert kept(store, "api", "third") == [0, 0]
        assert sorted(messages(released(store, ticket, claims))) == [b"c", b"d"]

    @ORDERS
    def test_their_time_ends(self, store: Store, clock: Clock, claims: list[Claim]) -> None:
        keeping_both(store, clock, claims)
        clock.advance(LASTS - 0.003)
        assert not reaped(store)
        clock.advance(0.003)
        assert sorted(messages(reaped(store))) == [b"c", b"d"]

    @pytest.mark.parametrize("at", [DISK, PAIR])
    def test_another_move_decides_anew(self, store: Store, clock: Clock, at: list[Claim]) -> None:
        """H8: grant in this hand-on what it keeps no more, also where that has looked before."""
        keeping_two(store, clock)
        admitted(store, THIRD, "u", Wait(Kind.REQUEUE, priority=2))
        for holder in "vw":
            parked(store, THIRD, holder, priority=2)
        assert messages(released(store, "x", at)) == [b"c"]
        assert store.snapshot("third").waiting == 3
        assert kept(store, "api", "disk", "third") == [0, 0, 0]

    def test_another_move_keeps_what_it_can(self, store: Store, clock: Clock) -> None:
        keeping_two(store, clock)
        admitted(store, THIRD, "u", Wait(Kind.REQUEUE, priority=2))
        clock.advance(2)
        assert not released(store, "x", DISK)
        assert kept(store, "api", "disk", "third") == [1, 1, 0]
        clock.advance(LASTS - 0.001)
        assert kept(store, "api", "disk", "third") == [1, 1, 0]
        assert messages(released(store, "u", THIRD)) == [b"pair"]

    def test_each_of_two_ends_in_its_time(self, store: Store, clock: Clock) -> None:
        """Let the reap at the end of the first one look again at the end of the other, and no later."""
        two = claim(2, weight=2)
        held_before(store, clock, DISK, 1.0)
        held_before(store, clock, THIRD, 2.0)
        admitted(store, two, "a")
        for at, holder in (
            ([*claim(2), *DISK], "first"),
            ([*claim(2), *THIRD], "second"),
            (claim(2), "c"),
            (claim(2), "d"),
        ):
            parked(store, at, holder)
            clock.advance(0.001)
        admitted(store, DISK, "x")
        admitted(store, THIRD, "t")
        clock.advance(4)
        assert not released(store, "a", two)
        assert kept(store) == [2, 0]
        clock.advance(LASTS)
        assert messages(reaped(store)) == [b"c"]
        assert kept(store) == [1, 0]
        clock.advance(2 - 0.001)  # twice the turn is 4 s, not 2 s
        assert not reaped(store)
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"d"]
