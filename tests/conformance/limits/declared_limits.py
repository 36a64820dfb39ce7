"""Test which limit is in force of those that acquires declare: row A4 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, refused, two_windows_later, why
from tests.conformance.suite import GRACE, LEASE, OpenStore, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

WINDOW = LEASE  # the clock begins 20 s after the beginning of a window


def limit_of(store: Store, resource: str = "api") -> int | None:
    """Return the limit in force; all that show it must agree."""
    (totals,) = store.totals([resource])
    seen = store.snapshot(resource)
    assert totals.limit == seen.limit
    return seen.limit


def declare(store: Store, *limits: int | None) -> None:
    """Let attempts declare these limits, and leave nothing behind."""
    for limit in limits:
        store.acquire(claim(limit), "declares")
        store.release("declares", claim())


def to_next_window(clock: Clock, after: float = 0.0, *, window: float = WINDOW) -> None:
    clock.advance((clock.now // window + 1) * window + after - clock.now)


class DeclaredLimits(Suite):
    def test_the_smallest_is_in_force_at_once(self, store: Store) -> None:
        for n, (limit, in_force) in enumerate([(5, 5), (50, 5), (3, 3), (4, 3)]):
            admitted(store, claim(limit), str(n)) if n < 3 else refused(store, claim(limit), "x")
            assert limit_of(store) == in_force

    @pytest.mark.parametrize("first", [5, 50])
    def test_a_stray_caller_lifts_no_limit(self, store: Store, first: int) -> None:
        """Use both orders; and the short way of a store as well as its long one."""
        declare(store, first, 55 - first)
        taken = [store.acquire(claim(50), f"stray:{n}") for n in range(31)]
        assert sum(isinstance(each, Permit) for each in taken) == 5
        assert refused(store, claim(50), "x").limit == 5

    def test_a_higher_one_is_in_force_after_the_windows_of_the_lower(
        self, store: Store, clock: Clock
    ) -> None:
        declare(store, 5)
        to_next_window(clock)
        for _ in range(3):
            declare(store, 50)
            assert limit_of(store) == 5
            clock.advance(WINDOW / 3 - 0.001)
        to_next_window(clock, -0.001)
        assert limit_of(store) == 5
        clock.advance(0.001)
        assert limit_of(store) == 50
        declare(store, 50)
        assert limit_of(store) == 50

    def test_one_that_is_declared_in_each_window_stays(self, store: Store, clock: Clock) -> None:
        """Two deployments run side by side, and each makes an attempt now and then."""
        for n in range(12):
            declare(store, *(5, 50) if n % 2 else (50,))
            assert n == 0 or limit_of(store) == 5
            clock.advance(WINDOW / 2)

    def test_the_second_smallest_is_known(self, store: Store, clock: Clock) -> None:
        """Let 1 lapse, which a stray caller declared, while 5 is declared by all others."""
        declare(store, 5, 1)
        assert limit_of(store) == 1
        for in_force in (1, 5, 5):
            to_next_window(clock)
            declare(store, 50, 5)
            assert limit_of(store) == in_force

    def test_the_last_one_stays_until_another_is_declared(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(5), "a")
        declare(store, 50)
        for _ in range(4):
            two_windows_later(store, clock, [permit])
            assert limit_of(store) == 5
        declare(store, 50)
        assert limit_of(store) == 50

    def test_the_last_one_is_the_last_of_the_smallest_per_window(
        self, store: Store, clock: Clock
    ) -> None:
        permit = admitted(store, claim(5), "a")
        to_next_window(clock)
        declare(store, 50)
        store.renew([permit])
        two_windows_later(store, clock, [permit])
        assert limit_of(store) == 50

    def test_a_deployment_lowers_at_once(self, store: Store) -> None:
        for n in range(6):
            admitted(store, claim(50), f"old:{n}")
        assert why(store, claim(5), "new") is Reason.SATURATED
        store.release("old:0", claim(50))
        assert why(store, claim(50), "old:7") is Reason.SATURATED
        store.release("old:1", claim(50))
        admitted(store, claim(50), "old:8")

    def test_keys_have_limits_of_their_own(self, store: Store) -> None:
        admitted(store, claim(1, key="x"), "a")
        for holder in "ab":
            admitted(store, claim(2, key="y"), holder)
        assert limit_of(store, "api/x") == 1
        assert limit_of(store, "api/y") == 2

    def test_the_limit_of_an_operator_goes_before_all(self, store: Store, clock: Clock) -> None:
        store.set_limit(3, "api")
        declare(store, 5, 1)
        assert limit_of(store) == 3
        clock.advance(0.1)
        store.set_limit(None, "api")
        assert limit_of(store) == 1

    def test_a_clock_that_steps_back_is_the_present_window(
        self, store: Store, clock: Clock
    ) -> None:
        declare(store, 5)
        clock.advance(-20 * WINDOW)
        declare(store, 50)
        assert limit_of(store) == 5
        for in_force in (5, 50):
            to_next_window(clock)
            declare(store, 50)
            assert limit_of(store) == in_force

    @pytest.mark.parametrize("lease", [LEASE / 6, LEASE * 6])
    def test_another_lease_makes_other_windows(
        self, store: Store, clock: Clock, lease: float
    ) -> None:
        """Else a number of a window would be of another time, perhaps of one that does not come for years."""
        declare(store, 5)
        store.set_lease(lease)
        declare(store, 50)
        assert limit_of(store) == 5
        for _ in range(2):
            to_next_window(clock, window=lease)
            declare(store, 50)
        to_next_window(clock, window=lease)
        assert limit_of(store) == 50

    def test_a_store_that_forgot_knows_the_smallest_again(self, store: Store, clock: Clock) -> None:
        declare(store, 50, 5)
        self.forget(store)
        declare(store, 5, 50)
        clock.advance(GRACE)
        assert refused(store, claim(50, weight=6), "a").limit == 5

    def test_a_restored_permit_counts_against_the_one_in_force(
        self, store: Store, open_store: OpenStore, clock: Clock
    ) -> None:
        """A second client with the same lease declares, as another worker does."""
        other: Any = open_store(now=clock, lease=LEASE, take_up=20.0)
        admitted(store, claim(1), "a")
        assert refused(other, claim(2), "b").limit == 1
