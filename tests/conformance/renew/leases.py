"""Test how long a permit lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, why
from tests.conformance.suite import GRACE, LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Leases(Suite):
    def test_a_lease_ends(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(LEASE - 0.001)
        assert why(store, claim(), "b") is Reason.SATURATED
        clock.advance(0.001)
        admitted(store, claim(), "c")

    def test_a_renewed_lease_goes_on(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        for _ in range(10):
            clock.advance(LEASE / 3)
            assert store.renew([permit]) == {"a": Renewal.OK}
        assert store.snapshot("api").holders[0].expires_at == clock.now + LEASE
        assert store.snapshot("api").holders[0].acquired_at == permit.acquired_at
        assert why(store, claim(), "b") is Reason.SATURATED

    def test_renewing_changes_nothing_else(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(9, weight=3), "a")
        clock.advance(1)
        store.renew([permit])
        store.renew([permit])
        seen = store.snapshot("api")
        assert (seen.occupied, seen.holders[0].token) == (3, permit.token)
        later = admitted(store, claim(9), "b").token
        store.renew([permit])
        assert admitted(store, claim(9), "c").token > later > permit.token

    def test_renewing_what_was_restored_changes_nothing_else(
        self, store: Store, clock: Clock
    ) -> None:
        permit = admitted(store, claim(9), "a")
        clock.advance(1)
        self.forget(store)
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        clock.advance(GRACE)
        later = admitted(store, claim(9), "b").token
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert admitted(store, claim(9), "c").token > later > permit.token

    def test_renewals_are_one_batch(self, store: Store, clock: Clock) -> None:
        both = claim(3) + claim(3, of="disk")
        kept, released = admitted(store, both, "a"), admitted(store, both, "b")
        clock.advance(1)
        store.release("b", both)
        assert store.renew([released, kept]) == {"a": Renewal.OK, "b": Renewal.LOST}
        assert store.renew([]) == {}
        clock.advance(LEASE - 1)
        assert store.snapshot("disk").occupied == store.snapshot("api").occupied == 1

    def test_each_of_many_renewals_has_its_own_answer(self, store: Store, clock: Clock) -> None:
        asked = [claim(9, key=f"{n % 50}", weight=1 + n % 3) for n in range(130)]
        asked = [
            wanted + claim(200, of="all") if n % 4 else wanted for n, wanted in enumerate(asked)
        ]
        permits = [admitted(store, wanted, f"h{n}") for n, wanted in enumerate(asked)]
        gone = {f"h{n}" for n in range(0, 130, 7)}
        for permit in permits:
            if permit.holder in gone:
                store.release(permit.holder, permit.claims)
        clock.advance(1)
        renewals = store.renew(permits)
        assert {holder for holder, said in renewals.items() if said is Renewal.LOST} == gone
        assert {str(said) for said in renewals.values()} == {"ok", "lost"}
        for permit in permits:
            for one in permit.claims:
                held = {each.holder: each for each in store.snapshot(one.resource).holders}
                assert (permit.holder in held) is (permit.holder not in gone)
                assert permit.holder in gone or held[permit.holder].expires_at == clock.now + LEASE

    def test_what_is_there_in_part_is_renewed_nowhere(self, store: Store, clock: Clock) -> None:
        """Renew a permit at none of its claims after it was dropped at one, where another holder is now."""
        both = claim() + claim(of="disk")
        permit = admitted(store, both, "a")
        store.release("a", claim(of="disk"))
        admitted(store, claim(of="disk"), "b")
        clock.advance(1)
        assert store.renew([permit]) == {"a": Renewal.LOST}
        assert [held.holder for held in store.snapshot("disk").holders] == ["b"]
        assert store.snapshot("api").occupied == 0

    def test_a_renewal_after_the_end_comes_too_late(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        clock.advance(LEASE)
        assert store.renew([permit]) == {"a": Renewal.LOST}
        admitted(store, claim(), "b")

    def test_a_renewal_after_the_release_brings_nothing_back(self, store: Store) -> None:
        permit = admitted(store, claim(), "a")
        store.release("a", claim())
        assert store.renew([permit]) == {"a": Renewal.LOST}
        assert store.snapshot("api").occupied == 0

    def test_the_dead_never_acquire_again(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(LEASE)
        assert why(store, claim(), "a") is Reason.RELEASED
        assert store.snapshot("api").occupied == 0

    @pytest.mark.parametrize("by", ["renewing", "asking", "reaping"])
    def test_the_dead_are_remembered_though_nobody_uses_the_key(
        self, store: Store, clock: Clock, by: str
    ) -> None:
        permit = admitted(store, claim(), "a")
        clock.advance(LEASE)
        if by == "renewing":
            assert store.renew([permit]) == {"a": Renewal.LOST}
        elif by == "asking":
            assert why(store, claim(0), "b") is Reason.PAUSED
        store.reap()
        clock.advance(LEASE / 3)
        store.reap()
        assert why(store, claim(), "a") is Reason.RELEASED
        assert admitted(store, claim(), "c").token > permit.token

    def test_many_dead_are_all_dead(self, store: Store, clock: Clock) -> None:
        """Refuse them all, though a store may end them one by one."""
        permits = [admitted(store, claim(200), f"h{n:03}") for n in range(200)]
        clock.advance(LEASE)
        assert why(store, claim(200), "h199") is Reason.RELEASED
        assert store.renew(reversed(permits)) == {p.holder: Renewal.LOST for p in permits}
        assert store.snapshot("api").occupied == 0

    def test_the_dead_release_nothing_of_others(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(LEASE)
        admitted(store, claim(), "b")
        store.release("a", claim())
        assert why(store, claim(), "c") is Reason.SATURATED

    def test_reaping_ends_what_is_overdue(self, store: Store, clock: Clock) -> None:
        admitted(store, claim() + claim(of="disk"), "a")
        clock.advance(LEASE)
        assert not store.reap()
        assert list(store.resources()) == []

    def test_reaping_ends_nothing_else(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        clock.advance(LEASE - 1)
        store.renew([permit])
        clock.advance(2)
        store.reap()
        assert store.snapshot("api").occupied == 1
        clock.advance(LEASE)
        store.reap()
        assert list(store.resources()) == []

    def test_a_snapshot_shows_only_the_living(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(LEASE)
        assert store.snapshot("api").holders == ()
        assert store.snapshot("api").occupied == 0
