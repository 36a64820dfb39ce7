"""Test the hand-on: a free permit goes to the first parked task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    parked,
    refused,
    two_windows_later,
    why,
)
from tests.conformance.grants import limited, messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class HandingOn(Suite):
    def test_a_lease_that_ended_is_handed_on(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        assert not store.reap()
        clock.advance(LEASE)
        assert messages(reaped(store)) == [b"b"]

    def test_reaping_comes_in_time(self, store: Store, clock: Clock) -> None:
        """Look at a resource again when its next lease ends, even if it was just looked at."""
        permits = [admitted(store, claim(of=name), name) for name in ("api", "disk")]
        parked(store, claim(), "b")
        clock.advance(LEASE - 1)
        store.renew(permits)
        clock.advance(1)
        assert not store.reap()
        clock.advance(LEASE - 1)
        assert messages(reaped(store)) == [b"b"]
        assert list(store.resources()) == ["api"]

    def test_a_raised_limit_is_handed_on(self, store: Store) -> None:
        admitted(store, claim(), "a")
        for holder in "bcd":
            parked(store, claim(), holder)
        assert messages(limited(store, 3, "api")) == [b"b", b"c"]

    def test_a_lowered_limit_is_not(self, store: Store) -> None:
        for holder in "ab":
            admitted(store, claim(2), holder)
        parked(store, claim(2), "c")
        store.set_limit(1, "api")
        assert not store.release("a", claim(2)).outgoing
        assert messages(released(store, "b", claim(2))) == [b"c"]

    def test_many_are_handed_on_at_once(self, store: Store) -> None:
        store.set_limit(0, "api")
        for n in range(250):
            parked(store, claim(1000), f"h{n:03}")
        granted = limited(store, 230, "api")
        assert sorted(messages(granted)) == [b"h%03d" % n for n in range(230)]
        assert store.snapshot("api").occupied == 230

    def test_a_heavy_head_blocks_its_line(self, store: Store, clock: Clock) -> None:
        for holder in "ab":
            admitted(store, claim(2), holder)
        parked(store, claim(2, weight=2), "heavy")
        clock.advance(1)
        parked(store, claim(2), "light")
        assert not store.release("a", claim(2)).outgoing
        assert messages(released(store, "b", claim(2))) == [b"heavy"]

    def test_what_one_heavy_holder_leaves_goes_to_several(self, store: Store) -> None:
        admitted(store, claim(3, weight=3), "a")
        for holder in "bcde":
            parked(store, claim(3), holder)
        assert messages(released(store, "a", claim(3, weight=3))) == [b"b", b"c", b"d"]

    def test_the_unsatisfiable_are_stepped_over(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(3), "a")
        parked(store, claim(3, weight=3), "heavy")
        clock.advance(1)
        store.set_limit(2, "api")
        parked(store, claim(3, weight=2), "fits")
        assert [t.unsatisfiable for t in store.snapshot("api").waiters] == [True, False]
        assert messages(released(store, "a", claim(3))) == [b"fits"]
        assert store.snapshot("api").waiting == 1

    def test_very_many_unsatisfiable_block_nobody(self, store: Store, clock: Clock) -> None:
        many = min(1050, self.longest_line - 2)
        admitted(store, claim(5, weight=2), "a")
        for n in range(many):
            parked(store, claim(5, weight=4), f"{n:04}")
        clock.advance(1)
        parked(store, claim(5), "fits")
        assert messages(limited(store, 3, "api")) == [b"fits"]
        assert store.snapshot("api").waiting == many
        assert refused(store, claim(5), "last", Wait(Kind.REQUEUE)).position == many

    def test_the_unsatisfiable_wait_for_another_limit(self, store: Store, clock: Clock) -> None:
        heavy = claim(3, weight=3)
        admitted(store, claim(3), "a")
        for holder in "bcde":
            parked(store, heavy, holder)
            clock.advance(0.001)
        store.set_limit(2, "api")
        store.release("a", claim(3))
        shown = store.snapshot("api").waiters
        assert [waiter.unsatisfiable for waiter in shown] == [True] * 4
        admitted(store, claim(3), "x")
        assert refused(store, heavy, "b2", came_back(shown[0].ticket, Kind.PARK)).position == 0
        assert store.snapshot("api").waiting == 4
        store.release(shown[1].ticket, heavy)  # c is given up
        assert not store.release("x", claim(3)).outgoing
        store.set_limit(1, "api")
        store.reap()
        assert not limited(store, 2, "api")
        assert messages(limited(store, 3, "api")) == [b"b"]
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [
            w.ticket for w in shown[2:]
        ]

    def test_the_unsatisfiable_can_be_ended(self, store: Store) -> None:
        heavy = claim(3, weight=3)
        admitted(store, claim(3), "a")
        ticket = parked(store, heavy, "b")
        store.set_limit(2, "api")
        store.release("a", claim(3))
        store.attach(ticket, heavy, b"b", name="b-id")
        store.set_limit(1, "api")
        store.reap()
        (ended,) = store.take(store.end(["b-id"]))
        assert (ended.ticket, ended.token) == (ticket, 0)
        store.sent([ended])
        assert list(store.resources()) == []

    def test_the_unsatisfiable_block_no_newcomers(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(3), "a")
        parked(store, claim(3, weight=3), "heavy")
        clock.advance(1)
        store.set_limit(2, "api")
        admitted(store, claim(3), "b")

    def test_a_grant_needs_all_claims(self, store: Store) -> None:
        both = claim() + claim(of="disk")
        admitted(store, both, "a")
        ticket = parked(store, both, "b")
        (grant,) = released(store, "a", both)
        assert grant.claims == tuple(both)
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 1
        admitted(store, both, "b2", came_back(ticket, Kind.PARK))
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 1
        assert not store.release("b2", both).outgoing
        assert list(store.resources()) == []

    def test_a_head_refused_elsewhere_moves_there(self, store: Store, clock: Clock) -> None:
        """Move the head to its other claim, which the releasing caller does not know."""
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        both = claim() + claim(of="disk")
        parked(store, both, "b")
        clock.advance(1)
        parked(store, claim(), "c")
        parked(store, claim(of="disk"), "y")
        clock.advance(1)
        assert not store.release("a", claim()).outgoing  # b keeps the room (H12)
        assert [t.position for t in store.snapshot("disk").waiters] == [0, 1]
        assert [t.weight for t in store.snapshot("api").waiters] == [1]
        assert messages(released(store, "x", claim(of="disk"))) == [b"b"]

    def test_a_head_that_keeps_no_room_moves_to_and_fro(self, store: Store, clock: Clock) -> None:
        """H12: its turn at the other claim takes longer than permits are held twice where there is room."""
        admitted(store, claim(of="disk"), "before")
        clock.advance(1)
        store.release("before", claim(of="disk"))
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        both = claim() + claim(of="disk")
        ticket = parked(store, both, "b")
        clock.advance(0.4)
        parked(store, claim(), "c")
        parked(store, claim(of="disk"), "y")
        assert messages(released(store, "a", claim())) == [b"c"]
        assert [t.position for t in store.snapshot("disk").waiters] == [0, 1]
        store.set_limit(2, "disk")
        assert [t.ticket for t in store.snapshot("api").waiters] == [ticket]  # c has what b needs

    def test_a_moved_head_is_granted_with_all_claims(self, store: Store) -> None:
        both = claim() + claim(of="disk")
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        ticket = parked(store, both, "b")
        assert not store.release("a", claim()).outgoing
        (grant,) = released(store, "x", claim(of="disk"))
        assert (grant.ticket, grant.payload) == (ticket, b"b")
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 1

    def test_a_grant_on_several_claims_comes_again(self, store: Store, clock: Clock) -> None:
        both = claim() + claim(of="disk")
        admitted(store, both, "a")
        ticket = parked(store, both, "b")
        store.release("a", both)
        clock.advance(TAKE_UP)
        (again,) = reaped(store)
        assert again.ticket == ticket
        clock.advance(1)
        assert not store.reap()

    def test_a_new_limit_that_an_acquire_declares_is_handed_on(
        self, store: Store, clock: Clock
    ) -> None:
        permit = admitted(store, claim(1), "a")
        parked(store, claim(1), "b")
        two_windows_later(store, clock, [permit])
        assert why(store, claim(2), "newcomer") is Reason.SATURATED
        assert messages(reaped(store)) == [b"b"]
