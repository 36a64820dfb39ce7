"""Test messages that wait in the store, and permits that are handed on to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    parked,
    refused,
    requeued,
    two_windows_later,
    why,
)
from tests.conformance.grants import messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

PARK = Wait(Kind.PARK)


class Parking(Suite):
    def test_a_message_outlives_a_look_at_its_other_resource(
        self, store: Store, clock: Clock
    ) -> None:
        """Its grant is over at both resources, and a call comes to the one where it has no record."""
        both = claim() + claim(of="disk")
        admitted(store, both, "a")
        parked(store, both, "b")
        store.take(store.release("a", both).outgoing)  # and the process that took it dies
        clock.advance(TAKE_UP)
        admitted(store, claim(of="disk"), "c")
        store.release("c", claim(of="disk"))
        assert messages(reaped(store)) == [b"b"]

    def test_a_release_hands_on_to_the_first(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(key="k"), "a")
        ticket = parked(store, claim(key="k"), "b")
        parked(store, claim(key="k"), "c")
        (grant,) = released(store, "a", claim(key="k"))
        assert (grant.ticket, grant.payload, grant.claims) == (ticket, b"b", tuple(claim(key="k")))
        assert grant.expires_at == clock.now + TAKE_UP
        held = store.snapshot("api/k").holders[0]
        assert (held.ticket, held.token, held.granted) == (ticket, grant.token, True)
        assert store.snapshot("api/k").waiting == 1

    def test_the_order_is_first_come(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        tickets = {}
        for holder in "zyx":
            tickets[holder] = parked(store, claim(), holder)
            clock.advance(0.001)
        before = "a"
        for holder in "zyx":
            assert messages(released(store, before, claim())) == [holder.encode()]
            before = f"{holder}2"
            admitted(store, claim(), before, came_back(tickets[holder], Kind.PARK))
        assert not store.release(before, claim()).outgoing

    def test_higher_priority_goes_first(self, store: Store) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "low")
        parked(store, claim(), "high", priority=9)
        assert messages(released(store, "a", claim())) == [b"high"]

    def test_a_grant_is_taken_up_once(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        (grant,) = released(store, "a", claim())
        assert grant.token == round(clock.now * 1_000_000) + 1, (
            "the time of the grant; a's is as new"
        )
        clock.advance(5)
        permit = admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert (permit.token, permit.expires_at) == (grant.token, clock.now + LEASE)
        assert permit.acquired_at == clock.now
        assert (store.snapshot("api").occupied, store.snapshot("api").waiting) == (1, 0)
        assert admitted(store, claim(), "b2", came_back(ticket, Kind.PARK)) == permit
        assert why(store, claim(), "b3", came_back(ticket, Kind.PARK)) is Reason.SATURATED
        clock.advance(LEASE)
        store.reap()
        assert list(store.resources()) == ["api"]  # b3's ticket, without a message

    def test_a_taken_up_permit_lives_as_any_other(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.release("a", claim())
        permit = admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        clock.advance(LEASE - 1)
        store.renew([permit])
        clock.advance(LEASE - 1)
        assert not store.reap()
        assert why(store, claim(), "c") is Reason.SATURATED
        assert not store.release("b2", claim()).outgoing
        assert list(store.resources()) == []

    def test_a_grant_keeps_others_out(self, store: Store) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.release("a", claim())
        assert why(store, claim(), "c") is Reason.SATURATED

    def test_a_grant_not_taken_up_comes_again(self, store: Store, clock: Clock) -> None:
        """Grant it again: the process that took it may have died before it could publish the message."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        parked(store, claim(), "c")
        (lost,) = released(store, "a", claim())
        clock.advance(TAKE_UP - 0.001)
        assert not store.reap()
        clock.advance(0.001)
        (again,) = reaped(store)
        assert (again.ticket, again.payload) == (ticket, b"b")
        assert again.token > lost.token

    def test_a_grant_that_ended_can_still_be_asked_for(self, store: Store, clock: Clock) -> None:
        """Deliver its message late, as a long queue does."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.release("a", claim())
        clock.advance(TAKE_UP)
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert store.snapshot("api").waiting == 0
        clock.advance(LEASE)
        assert not store.reap()

    def test_positions_count_the_parked(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        for n, holder in enumerate("bcd"):
            assert refused(store, claim(), holder, PARK).position == n
            parked(store, claim(), holder)
            clock.advance(1)
        requeued(store, claim(), "e")
        clock.advance(1)
        assert refused(store, claim(), "f").position == 4

    def test_newcomers_do_not_overtake(self, store: Store, clock: Clock) -> None:
        """Declare a higher limit, before any call has handed on a permit."""
        permit = admitted(store, claim(1), "a")
        ticket = parked(store, claim(1), "b")
        two_windows_later(store, clock, [permit])
        assert why(store, claim(2), "c") is Reason.SATURATED
        admitted(store, claim(2), "b2", came_back(ticket, Kind.PARK))

    def test_a_parked_ticket_can_be_given_up(self, store: Store) -> None:
        """Give up the ticket of a task that will not run, for example a revoked one."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        assert not store.release(ticket, claim()).outgoing
        assert not store.release("a", claim()).outgoing
        assert list(store.resources()) == []

    def test_a_grant_can_be_given_up(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        parked(store, claim(), "c")
        store.release("a", claim())
        mean = store.snapshot("api").mean_held
        clock.advance(5)
        assert messages(released(store, ticket, claim())) == [b"c"]
        assert store.snapshot("api").mean_held == mean
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"c"]

    @pytest.mark.parametrize("examined", [False, True])
    def test_one_heavier_than_its_own_limit_goes_on_under_a_higher_one(
        self, store: Store, clock: Clock, *, examined: bool
    ) -> None:
        """Attach its message before any other call, after the store forgot which limit was declared."""
        heavy = claim(1, weight=2)
        ticket = refused(store, heavy, "b", Wait(Kind.PARK)).ticket
        assert ticket
        self.forget(store)
        assert why(store, claim(of="disk"), "x") is Reason.RECOVERING
        clock.advance(LEASE)  # in the grace no call looks at the line
        assert not store.attach(ticket, heavy, b"b")
        clock.advance(LEASE)
        if examined:
            assert reaped(store) == []
        assert why(store, claim(2), "c") is Reason.SATURATED
        assert messages(reaped(store)) == [b"b"]

    def test_a_resource_that_let_nobody_in_yet_is_not_forgotten_at_once(
        self, store: Store, clock: Clock
    ) -> None:
        """Keep its limit, which tells an operator why nothing runs."""
        assert why(store, claim(2, weight=3), "a") is Reason.UNSATISFIABLE
        for _ in range(3):
            clock.advance(2 * LEASE)
            store.reap()
            assert store.snapshot("api").limit == 2
