"""Test a store that forgot: a new epoch, a grace, and permits that are restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, refused, why
from tests.conformance.grants import reaped
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import GRACE, LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Epochs(Suite):
    def test_a_store_never_used_waits_for_nothing(self, store: Store) -> None:
        assert store.epoch is None
        admitted(store, claim(), "a")
        assert store.epoch

    def test_one_memory_as_long_as_nothing_is_lost(self, store: Store, clock: Clock) -> None:
        first = admitted(store, claim(9), "a").epoch
        clock.advance(100 * LEASE)
        store.reap()
        assert admitted(store, claim(9), "b").epoch == first

    def test_nobody_new_in_the_grace(self, store: Store, clock: Clock) -> None:
        before = admitted(store, claim(), "a").epoch
        self.forget(store)
        refusal = refused(store, claim(), "b", Wait(Kind.REQUEUE))
        assert refusal.reason is Reason.RECOVERING
        assert refusal.retry_after == GRACE
        assert refusal.ticket
        assert (store.epoch or 0) > before
        clock.advance(GRACE - 0.001)
        assert why(store, claim(), "c") is Reason.RECOVERING
        clock.advance(0.001)
        admitted(store, claim(), "d")

    def test_a_snapshot_tells_the_end_of_the_grace(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        assert store.snapshot("api").grace_until is None
        self.forget(store)
        refused(store, claim(), "b", Wait(Kind.REQUEUE))
        ends = clock.now + GRACE
        clock.advance(GRACE - 0.001)
        assert store.snapshot("api").grace_until == ends
        assert next(store.snapshots(["api"])).grace_until == ends
        clock.advance(0.001)
        assert store.snapshot("api").grace_until is None

    def test_the_grace_is_waited_for_even_beyond_the_bounds(self, store: Store) -> None:
        admitted(store, claim(), "a")
        self.forget(store)
        short = Wait(Kind.REQUEUE, longest=1.0)
        assert refused(store, claim(), "b", short).retry_after == GRACE

    def test_the_living_put_their_permits_back(self, store: Store, clock: Clock) -> None:
        both = claim(2, weight=2) + claim(of="disk")
        permit = admitted(store, both, "a")
        self.forget(store)
        clock.advance(1)
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        assert store.renew([permit]) == {"a": Renewal.OK}
        seen = store.snapshot("api")
        assert seen.occupied == 2
        held = seen.holders[0]
        assert (held.token, held.acquired_at) == (permit.token, permit.acquired_at)
        assert held.expires_at == clock.now + LEASE
        assert store.snapshot("disk").occupied == 1
        assert sorted(store.resources()) == ["api", "disk"]
        clock.advance(GRACE)
        assert why(store, claim(2), "b") is Reason.SATURATED
        assert not store.release("a", both).outgoing
        assert admitted(store, both, "c").token > permit.token

    def test_tokens_grow_even_if_the_clock_went_back(self, store: Store, clock: Clock) -> None:
        """Fail over to a replica with a clock that is behind."""
        permit = admitted(store, claim(2), "a")
        self.forget(store)
        clock.advance(-1000)
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        clock.advance(GRACE)
        assert admitted(store, claim(2), "b").token > permit.token

    def test_only_in_the_grace(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        self.forget(store)
        assert why(store, claim(), "b") is Reason.RECOVERING
        clock.advance(GRACE)
        assert store.renew([permit]) == {"a": Renewal.LOST}

    def test_only_what_fits(self, store: Store) -> None:
        permits = [admitted(store, claim(2), holder) for holder in "ab"]
        heavy = admitted(store, claim(2, of="disk", weight=2), "c")
        self.forget(store)
        store.set_limit(1, "api")
        store.set_limit(1, "disk")
        assert list(store.renew(permits).values()) == [Renewal.RESTORED, Renewal.LOST]
        assert store.renew([heavy]) == {"c": Renewal.LOST}
        assert store.snapshot("api").occupied == 1

    def test_only_what_fits_on_all_claims(self, store: Store) -> None:
        both = claim() + claim(of="disk")
        permit = admitted(store, both, "a")
        self.forget(store)
        store.set_limit(0, "disk")
        assert store.renew([permit]) == {"a": Renewal.LOST}
        assert store.snapshot("api").occupied == 0

    def test_never_what_was_released(self, store: Store) -> None:
        """Let a release overtake a renewal on its way."""
        permit = admitted(store, claim(), "a")
        self.forget(store)
        store.release("a", claim())
        assert store.renew([permit]) == {"a": Renewal.LOST}
        assert store.snapshot("api").occupied == 0

    def test_never_what_was_restored_and_released(self, store: Store) -> None:
        permit = admitted(store, claim(), "a")
        self.forget(store)
        store.renew([permit])
        store.release("a", claim())
        assert store.renew([permit]) == {"a": Renewal.LOST}

    def test_never_a_permit_of_this_memory(self, store: Store) -> None:
        """Restore no permit of this epoch: the store did not forget it, so it has ended."""
        permit = admitted(store, claim(), "a")
        self.forget(store)
        assert why(store, claim(), "b") is Reason.RECOVERING
        stranger = type(permit)("x", 1, permit.claims, 1.0, 2.0, store.epoch or 0)
        assert store.renew([stranger]) == {"x": Renewal.LOST}

    def test_a_store_that_went_back_begins_a_new_epoch(self, store: Store, clock: Clock) -> None:
        """Return to a server that never restarted, while its callers used another one."""
        before = admitted(store, claim(), "a").epoch
        there = before + 60_000_000
        living = Permit("b", 1, tuple(claim()), clock.now, clock.now + LEASE, there)
        store.epoch = there
        assert why(store, claim(2), "c") is Reason.RECOVERING
        begun = store.epoch
        assert begun > there
        assert store.renew([living]) == {"b": Renewal.RESTORED}
        clock.advance(GRACE)
        assert why(store, claim(), "d") is Reason.SATURATED

    def test_callers_that_knew_other_epochs_share_the_new_one(
        self, store: Store, clock: Clock
    ) -> None:
        before = admitted(store, claim(9), "a").epoch
        store.epoch = before + 60_000_000
        assert why(store, claim(9), "b") is Reason.RECOVERING
        begun = store.epoch
        for seconds in (1.0, GRACE - 1.0):
            for known in (before, before + 30_000_000, before + 60_000_000, None):
                store.epoch = known
                store.snapshot("api")
                assert store.epoch == begun
            clock.advance(seconds)
        for known in (before, before + 60_000_000, begun, None):
            store.epoch = known
            assert admitted(store, claim(9), f"c{known}").epoch == begun

    def test_twice(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        for _ in range(2):
            self.forget(store)
            clock.advance(1)
            assert store.renew([permit]) == {"a": Renewal.RESTORED}
            assert why(store, claim(), "b") is Reason.RECOVERING
        clock.advance(GRACE)
        assert why(store, claim(), "c") is Reason.SATURATED

    def test_leases_end_after_the_grace(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        self.forget(store)
        store.renew([permit])
        clock.advance(LEASE)
        assert store.renew([permit]) == {"a": Renewal.LOST}
        admitted(store, claim(), "b")

    def test_nothing_is_handed_on_in_the_grace(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        self.forget(store)
        store.renew([permit])
        parked(store, claim(), "b")
        assert not store.release("a", claim()).outgoing
        assert not store.reap()
        clock.advance(LEASE)
        assert [grant.payload for grant in reaped(store)] == [b"b"]

    def test_a_wait_that_began_in_the_grace_is_granted_at_its_end(
        self, store: Store, clock: Clock
    ) -> None:
        """No permit is released there, so a reaper must hand on when the grace ends, not a lease later."""
        admitted(store, claim(), "a")
        self.forget(store)
        store.ask(S)
        store.reap()
        wait = held(store, "b")
        clock.advance(GRACE)
        store.reap()
        assert store.ask(S).granted == {wait.ticket.nonce}

    def test_one_grace_for_one_loss(self, store: Store, clock: Clock) -> None:
        """Begin no second grace for other clients that knew the old epoch."""
        admitted(store, claim(), "a")
        known = store.epoch
        self.forget(store)
        assert why(store, claim(), "b") is Reason.RECOVERING
        clock.advance(GRACE)
        store.epoch = known
        admitted(store, claim(), "c")

    def test_a_waiter_keeps_its_place_over_a_loss(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", Wait(Kind.REQUEUE)).ticket
        self.forget(store)
        clock.advance(1)
        refused(store, claim(), "c", Wait(Kind.REQUEUE))
        again = refused(store, claim(), "b2", Wait(Kind.REQUEUE, ticket=ticket))
        assert (again.ticket, again.position, again.waited) == (ticket, 0, 1.0)
