"""Test the lease of the whole store: that of its first caller or of an operator, whatever the others bring (A16)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, parked, why
from tests.conformance.grants import released
from tests.conformance.sessions.session_calls import S, T
from tests.conformance.suite import GRACE, LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.permit import Permit
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock
    from tests.conformance.suite import OpenStore

SHORT, LONG = 2.0, 300.0


def ends_in(store: Store, clock: Clock, resource: str = "api") -> float:
    (entry,) = store.snapshot(resource).holders
    return round(entry.expires_at - clock.now, 3)


def never_admitted(store: Store, clock: Clock, holds: Permit, by: Store, every: float) -> None:
    """Ask each second for ten leases, while the holder renews each so many seconds."""
    renewed_at = clock.now
    for second in range(int(10 * LEASE)):
        clock.advance(1)
        if clock.now - renewed_at >= every:
            assert by.renew([holds]) == {holds.holder: Renewal.OK}
            renewed_at = clock.now
        store.reap()
        assert why(store, claim(), f"b{second}") is Reason.SATURATED


class StoreLease(Suite):
    @pytest.fixture
    def beside(self, open_store: OpenStore, clock: Clock, store: Store) -> Callable[..., Store]:
        """Open other clients of this store."""

        def beside(lease: float, take_up: float | None = None) -> Store:
            return open_store(now=clock, lease=lease, take_up=take_up or lease)

        return beside

    def test_the_first_callers_lease_is_in_force(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        assert store.lease == LEASE
        other = beside(LONG)
        assert other.lease == LONG
        admitted(other, claim(), "a")
        assert why(store, claim(), "b") is Reason.SATURATED
        assert (store.lease, other.lease) == (LONG, LONG)
        assert ends_in(store, clock) == LONG

    def test_a_shorter_lease_of_another_client_ends_no_permit(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        """Cut nothing by a caller's own lease: its holder renews by that of the store."""
        permit = admitted(store, claim(), "a")
        never_admitted(beside(SHORT), clock, permit, by=store, every=LEASE / 3)

    def test_a_longer_lease_of_another_client_keeps_no_permit(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        admitted(store, claim(), "a")
        other = beside(LONG)
        assert why(other, claim(), "b") is Reason.SATURATED
        clock.advance(LEASE)
        admitted(other, claim(), "c")
        assert ends_in(other, clock) == LEASE

    def test_a_renewal_by_another_client_lasts_a_lease_of_the_store(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        permits = [admitted(store, claim(250), f"a{n}") for n in range(250)]
        clock.advance(5)
        other = beside(SHORT)
        assert set(other.renew(permits).values()) == {Renewal.OK}
        assert {entry.expires_at for entry in store.snapshot("api").holders} == {clock.now + LEASE}

    def test_a_tombstone_lasts_a_lease_of_the_store(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        admitted(store, claim(), "a")
        beside(SHORT).release("a", claim())
        clock.advance(LEASE - 0.001)
        assert why(store, claim(), "a") is Reason.RELEASED

    def test_a_session_is_awake_for_a_lease_of_the_store(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        store.ask(S)
        clock.advance(LEASE - 0.001)
        assert beside(SHORT).ask(T).sessions == 2
        assert not store.ask(S).slept

    @pytest.mark.parametrize("take_up", [TAKE_UP / 10, 10 * TAKE_UP])
    def test_a_sent_grant_lasts_as_long_as_the_store_says(
        self, store: Store, clock: Clock, beside: Callable[..., Store], take_up: float
    ) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        other = beside(LEASE, take_up)
        other.sent(released(other, "a", claim()))
        assert ends_in(store, clock) == TAKE_UP

    def test_it_is_said_once(
        self, store: Store, beside: Callable[..., Store], caplog: pytest.LogCaptureFixture
    ) -> None:
        admitted(store, claim(9), "a")
        other = beside(SHORT, TAKE_UP)
        with caplog.at_level(logging.WARNING):
            for holder in "bcd":
                admitted(other, claim(9), holder)
                admitted(store, claim(9), holder * 2)
        (said,) = [each.getMessage() for each in caplog.records if "lease" in each.getMessage()]
        assert f"semaphore_lease is {SHORT:g} s here, but the store keeps {LEASE:g} s" in said
        assert f"semaphore lease {SHORT:g}" in said

    def test_check_says_so(
        self, store: Store, beside: Callable[..., Store], caplog: pytest.LogCaptureFixture
    ) -> None:
        before = store.check()
        admitted(store, claim(9), "a")
        assert store.check() == before
        other = beside(SHORT, TAKE_UP)
        with caplog.at_level(logging.WARNING):
            (said,) = [each for each in other.check() if each not in before]
            admitted(other, claim(9), "b")
        assert f"semaphore_lease is {SHORT:g} s here, but the store keeps {LEASE:g} s" in said
        assert other.lease == LEASE
        assert said not in caplog.text

    # -- an operator changes it

    @pytest.mark.parametrize("lease", [SHORT, LONG])
    def test_an_operator_changes_it_for_all(
        self, store: Store, clock: Clock, beside: Callable[..., Store], lease: float
    ) -> None:
        permit = admitted(store, claim(), "a")
        other = beside(LEASE)
        other.set_lease(lease)
        assert other.lease == lease
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert store.lease == lease
        assert ends_in(store, clock) == lease
        assert beside(LEASE).check()

    @pytest.mark.parametrize("lease", [SHORT, LONG])
    def test_also_for_one_that_made_no_other_call_since(
        self, store: Store, clock: Clock, beside: Callable[..., Store], lease: float
    ) -> None:
        for holder in "ab":
            admitted(store, claim(), holder)
            store.release(holder, claim())
        beside(LEASE).set_lease(lease)
        admitted(store, claim(), "c")
        assert ends_in(store, clock) == lease

    @pytest.mark.parametrize("take_up", [None, 7.0])
    def test_and_how_long_a_sent_grant_lasts(
        self, store: Store, clock: Clock, beside: Callable[..., Store], take_up: float | None
    ) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        beside(LEASE).set_lease(LONG, take_up)
        store.sent(released(store, "a", claim()))
        assert ends_in(store, clock) == (take_up or LONG)

    def test_a_shorter_one_ends_no_permit_of_a_living_holder(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        """Let its holder renew a third of the longer lease later: it learns of the shorter one then."""
        permit = admitted(store, claim(), "a")
        other = beside(LEASE)
        other.set_lease(SHORT)
        clock.advance(LEASE / 3 - 0.001)
        assert why(other, claim(), "b") is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}
        never_admitted(other, clock, permit, by=store, every=SHORT / 3)

    def test_a_shorter_one_frees_what_a_dead_holder_had_when_that_would_have_been_free(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        admitted(store, claim(), "a")
        other = beside(LEASE)
        other.set_lease(SHORT)
        other.set_lease(SHORT / 2)
        clock.advance(LEASE - 0.001)
        assert why(other, claim(), "b") is Reason.SATURATED
        clock.advance(0.001)
        admitted(other, claim(), "c")

    def test_a_shorter_one_shortens_no_grace_that_is_needed(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        """Lose the last moments after the change: the grace must be as long as the longer lease needs."""
        permit = admitted(store, claim(), "a")
        other = beside(LEASE)
        other.set_lease(SHORT)
        lose_the_rest = self.remember(store)
        lose_the_rest()
        assert why(other, claim(2), "b") is Reason.RECOVERING
        clock.advance(LEASE / 3)
        assert why(other, claim(2), "c") is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_the_longer_one_counts_no_more_when_it_is_over(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        admitted(store, claim(), "a")
        other = beside(LEASE)
        other.set_lease(SHORT)
        clock.advance(LEASE)
        lose_the_rest = self.remember(store)
        lose_the_rest()
        assert why(other, claim(), "b") is Reason.RECOVERING
        clock.advance(SHORT * 2 / 3)
        admitted(other, claim(), "c")

    @pytest.mark.parametrize("lease", [0.0, -1.0, float("inf"), float("nan")])
    def test_it_is_a_number_of_seconds(self, store: Store, lease: float) -> None:
        with pytest.raises(ValueError, match="seconds"):
            store.set_lease(lease)
        with pytest.raises(ValueError, match="seconds"):
            store.set_lease(LEASE, lease)

    # -- the store forgets

    def test_those_who_knew_it_bring_it_back(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        """Adopt it, lose the store, and be the first to call."""
        permit = admitted(store, claim(), "a")
        other = beside(SHORT)
        assert why(other, claim(), "b") is Reason.SATURATED
        self.forget(store)
        assert why(other, claim(), "c") is Reason.RECOVERING
        clock.advance(LEASE / 3)
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        assert (store.lease, other.lease) == (LEASE, LEASE)
        assert ends_in(store, clock) == LEASE

    def test_so_they_do_after_a_first_caller_that_knew_nothing(
        self, store: Store, clock: Clock, beside: Callable[..., Store]
    ) -> None:
        """Renew a third of the lease later, when that of the newcomer would be over."""
        living = [admitted(store, claim(3), holder) for holder in "ab"]
        clock.advance(1)
        self.forget(store)
        newcomer = beside(SHORT)
        newcomer.snapshot("api")
        clock.advance(LEASE / 3)
        assert store.renew(living[:1]) == {"a": Renewal.RESTORED}
        assert why(newcomer, claim(2), "c") is Reason.RECOVERING
        assert newcomer.lease == LEASE
        clock.advance(GRACE - 0.001)
        assert store.renew(living) == {"a": Renewal.OK, "b": Renewal.RESTORED}
