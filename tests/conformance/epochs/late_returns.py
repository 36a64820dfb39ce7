"""Test newcomers beside holders that put their permits back late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, why
from tests.conformance.suite import GRACE, LEASE, Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class LateReturns(Suite):
    def admit_newcomer(self, store: Store, clock: Clock, claims: Sequence[Claim]) -> None:
        """Forget all, and admit a newcomer by a client that knew no other epoch."""
        known = store.epoch
        self.forget(store)
        clock.advance(1)
        store.epoch = None
        admitted(store, claims, "newcomer")
        store.epoch = known

    def test_a_newcomer_may_come_first(self, store: Store, clock: Clock) -> None:
        """Begin the grace with a client that knew the epoch before."""
        permit = admitted(store, claim(2), "a")
        self.admit_newcomer(store, clock, claim(2))
        clock.advance(LEASE / 2)
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        store.epoch = None
        store.release("newcomer", claim(2))
        assert why(store, claim(2), "b") is Reason.RECOVERING
        clock.advance(GRACE)
        admitted(store, claim(2), "c")

    def test_a_newcomer_fills_a_place(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        known = store.epoch
        self.forget(store)
        clock.advance(1)
        store.epoch = None
        for newcomer in ("b", "c"):
            admitted(store, claim(), newcomer)
            if newcomer == "b":
                store.release(newcomer, claim())
        store.epoch = known
        assert store.renew([permit]) == {"a": Renewal.LOST}
        assert store.snapshot("api").occupied == 1

    def test_who_knew_the_old_memory_begins_the_grace_though_there_is_room(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, claim(3), "a")
        self.admit_newcomer(store, clock, claim(3))
        assert why(store, claim(3), "b") is Reason.RECOVERING

    def test_who_knew_an_old_memory_may_come_too_late(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        self.admit_newcomer(store, clock, claim())
        clock.advance(LEASE)
        assert store.renew([permit]) == {"a": Renewal.LOST}
        admitted(store, claim(), "b")
