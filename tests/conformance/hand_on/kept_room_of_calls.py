"""Test the room that a call keeps: it only asks again while it waits, so that ends nothing (A20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.hand_on.kept_room import API, DISK, PAIR, called, held_before, kept
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import calls, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock


def call_that_keeps(store: Store, clock: Clock) -> Ticket:
    """Let a call keep room at ``api`` for 3 s, which another wait would be granted then; ``disk`` is free in 1 s."""
    held_before(store, clock, DISK, 1.0)
    admitted(store, DISK, "x")
    clock.advance(LEASE - 2)
    admitted(store, API, "a")
    clock.advance(1)
    ticket = called(store, PAIR, "call")
    clock.advance(0.001)
    parked(store, API, "c")
    assert not released(store, "a", API)
    assert kept(store) == [1, 0]
    return ticket


class KeptRoomOfCalls(Suite):
    def test_asking_again_keeps_it(self, store: Store, clock: Clock) -> None:
        ticket = call_that_keeps(store, clock)
        for _ in range(3):
            clock.advance(0.1)
            again = refused(store, PAIR, "call", calls(ticket))
            assert (again.reason, again.claim.semaphore) == (Reason.SATURATED, "disk")
            assert (again.occupied, again.kept) == (1, 0)
            assert kept(store) == [1, 0]
        assert not reaped(store)
        store.release("x", DISK)
        assert granted(store) == granted(store, "disk") == [ticket]

    def test_asking_again_makes_it_last_no_longer(self, store: Store, clock: Clock) -> None:
        held_before(store, clock, DISK, 1.0)
        admitted(store, API, "a")
        admitted(store, DISK, "x")
        clock.advance(1)
        ticket = called(store, PAIR, "call")
        clock.advance(0.001)
        parked(store, API, "c")
        store.release("a", API)
        clock.advance(2.999)
        refused(store, PAIR, "call", calls(ticket))
        assert kept(store) == [1, 0]
        clock.advance(0.001)
        assert kept(store) == [0, 0]
        assert messages(reaped(store)) == [b"c"]

    @pytest.mark.parametrize("of", ["the operator", "the call"])
    def test_a_pause_ends_it(self, store: Store, clock: Clock, of: str) -> None:
        """It is refused for another reason."""
        ticket = call_that_keeps(store, clock)
        if of == "the operator":
            store.pause("disk")
        claims = [*API, *claim(0 if of == "the call" else 1, of="disk")]
        assert why(store, claims, "call", calls(ticket)) is Reason.PAUSED
        assert kept(store) == [0, 0]
        assert messages(reaped(store)) == [b"c"]

    def test_its_timeout_ends_it(self, store: Store, clock: Clock) -> None:
        """A12, at its last question."""
        ticket = call_that_keeps(store, clock)
        last = refused(store, PAIR, "call", calls(ticket, timeout=0.001))
        assert (last.reason, last.ticket) == (Reason.TIMED_OUT, None)
        assert kept(store) == [0, 0]
        assert messages(reaped(store)) == [b"c"]

    def test_it_ends_when_the_task_calls_no_more(self, store: Store, clock: Clock) -> None:
        """Its next acquire has a message, which is parked or kept where it is refused."""
        ticket = call_that_keeps(store, clock)
        assert why(store, PAIR, "call", came_back(ticket, Kind.PARK)) is Reason.SATURATED
        assert kept(store) == [0, 0]
        assert messages(reaped(store)) == [b"c"]

    @pytest.mark.parametrize("kind", [Kind.BLOCK, Kind.PARK])
    def test_its_admission_ends_it(self, store: Store, clock: Clock, kind: Kind) -> None:
        """A14: it is admitted before any hand-on."""
        ticket = call_that_keeps(store, clock)
        clock.advance(0.999)  # the lease of x is over
        wait = calls(ticket) if kind is Kind.BLOCK else came_back(ticket, kind)
        admitted(store, PAIR, "call", wait)
        assert kept(store) == [0, 0]
        assert messages(released(store, "call", PAIR)) == [b"c"]

    @pytest.mark.parametrize("by", ["ticket", "holder"])
    def test_its_release_ends_it(self, store: Store, clock: Clock, by: str) -> None:
        """R6: the caller gives up, and may not have heard of the refusal."""
        ticket = call_that_keeps(store, clock)
        assert messages(released(store, ticket if by == "ticket" else "call", PAIR)) == [b"c"]
        assert kept(store) == [0, 0]
