"""Test in whose line a wait of several claims stands: that of the one whose permits come most slowly (A13, H8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import limited, messages, released
from tests.conformance.hand_on.kept_room import API, DISK, PAIR, THIRD, held_before
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


def waiting(store: Store, *names: str) -> list[int]:
    return [store.snapshot(name).waiting for name in names]


def fill(store: Store, *claims: Sequence[Claim]) -> None:
    """Let each of these resources be held whole."""
    for [each] in claims:
        assert each.limit
        admitted(store, claim(each.limit, of=each.semaphore, weight=each.limit), each.semaphore)


class SlowestClaim(Suite):
    @pytest.mark.parametrize(
        ("api", "disk", "means", "slowest"),
        [
            (claim(10), DISK, {}, "disk"),
            (API, claim(10, of="disk"), {}, "api"),
            (API, DISK, {}, "api"),  # the first of equal ones
            # without a known mean: as long as at the others
            (API, DISK, {"disk": 60.0}, "api"),
            (claim(10), DISK, {"api": 60.0}, "disk"),
            (API, claim(10, of="disk"), {"disk": 60.0}, "api"),
            (claim(2), claim(3, of="disk"), {"api": 0.1}, "api"),
            (API, DISK, {"api": 4.0, "disk": 4.1}, "disk"),
            (API, DISK, {"api": 4.0, "disk": 3.9}, "api"),
            (claim(3), claim(2, of="disk"), {"api": 3.1, "disk": 2.0}, "api"),
            (claim(3), claim(2, of="disk"), {"api": 2.9, "disk": 2.0}, "disk"),
            (claim(6), claim(6, of="disk", weight=2), {"api": 1.9, "disk": 1.0}, "disk"),
            (claim(6), claim(6, of="disk", weight=2), {"api": 2.1, "disk": 1.0}, "api"),
        ],
    )
    def test_it_stands_where_permits_come_most_slowly(
        self,
        store: Store,
        clock: Clock,
        *,
        api: list[Claim],
        disk: list[Claim],
        means: dict[str, float],
        slowest: str,
    ) -> None:
        for at in (api, disk):
            if mean := means.get(at[0].semaphore):
                held_before(store, clock, at, mean)
        fill(store, api, disk)
        refusal = refused(store, api + disk, "told")
        assert refusal.claim == (api if slowest == "api" else disk)[0]
        assert (refusal.limit, refusal.occupied) == (refusal.claim.limit, refusal.claim.limit)
        parked(store, api + disk, "pair")
        assert waiting(store, slowest) == [1]
        assert sum(waiting(store, "api", "disk")) == 1

    def test_a_limit_of_an_operator_counts(self, store: Store) -> None:
        limited(store, 10, "api")
        fill(store, DISK)
        for n in range(10):
            admitted(store, API, f"a{n}")
        parked(store, PAIR, "pair")
        assert waiting(store, "api", "disk") == [0, 1]

    def test_a_wait_before_it_refuses_too(self, store: Store) -> None:
        """C5: heavy waits leave room at disk."""
        few = claim(2, of="disk")
        admitted(store, few, "x")
        parked(store, claim(2, of="disk", weight=2), "heavy")
        fill(store, claim(10))
        parked(store, [*claim(10), *few], "pair")
        assert waiting(store, "api", "disk") == [0, 2]

    def test_where_there_is_room_it_does_not_wait(self, store: Store) -> None:
        fill(store, claim(10))
        assert refused(store, [*claim(10), *DISK], "pair").claim == claim(10)[0]

    @pytest.mark.parametrize("order", [1, -1])
    def test_the_slowest_of_three(self, store: Store, clock: Clock, order: int) -> None:
        three = [*API, *DISK, *THIRD]
        held_before(store, clock, API, 1.0)
        held_before(store, clock, DISK, 3.0)
        held_before(store, clock, THIRD, 2.0)
        fill(store, API, DISK, THIRD)
        parked(store, three[::order], "three")
        assert waiting(store, "api", "disk", "third") == [0, 1, 0]

    @pytest.mark.parametrize(("home", "other"), [(API, DISK), (DISK, API)])
    def test_the_slowest_of_the_others_that_refuse(
        self, store: Store, clock: Clock, home: list[Claim], other: list[Claim]
    ) -> None:
        """H8: when its turn comes, at the first of its claims or at the second, it moves to the slowest other one."""
        held_before(store, clock, other, 2.0)
        held_before(store, clock, THIRD, 3.0)
        fill(store, home)
        parked(store, [*API, *DISK, *THIRD], "three")
        fill(store, other, THIRD)
        assert not released(store, home[0].semaphore, home)
        assert waiting(store, "api", "disk", "third") == [0, 0, 1]

    def test_the_first_reason_counts_unless_it_is_saturated(self, store: Store) -> None:
        store.set_limit(0, "api")
        fill(store, DISK)
        assert refused(store, PAIR, "paused").reason is Reason.PAUSED
        refusal = refused(store, [*DISK, *API], "saturated")
        assert (refusal.claim, refusal.reason) == (DISK[0], Reason.SATURATED)
        heavy = [*DISK, *claim(1, of="third", weight=2)]
        refusal = refused(store, heavy, "too heavy there")
        assert (refusal.claim, refusal.reason) == (DISK[0], Reason.SATURATED)

    def test_of_others_than_saturated_none_counts_after_the_first(
        self, store: Store, clock: Clock
    ) -> None:
        held_before(store, clock, THIRD, 3.0)
        held_before(store, clock, DISK, 2.0)
        fill(store, DISK, THIRD)
        store.set_limit(0, "api")
        refusal = refused(store, [*DISK, *API, *THIRD], "three")
        assert (refusal.claim, refusal.reason) == (THIRD[0], Reason.SATURATED)

    def test_after_another_reason_no_line_is_looked_at(self, store: Store) -> None:
        """One that was set aside at a later claim stands in line again by a call that looks there."""
        parked(store, claim(None, of="disk"), "of an unknown limit")
        store.reap()
        store.set_limit(0, "api")
        assert refused(store, [*API, *claim(3, of="disk")], "pair").reason is Reason.PAUSED
        assert store.totals(["disk"])[0].set_aside == 1

    def test_a_release_at_the_faster_one_moves_no_wait(self, store: Store) -> None:
        fast = claim(10)
        for n in range(10):
            admitted(store, fast, f"a{n}")
        fill(store, DISK)
        for n in range(3):
            parked(store, [*fast, *DISK], f"pair {n}")
        assert not released(store, "a0", fast)
        assert waiting(store, "api", "disk") == [0, 3]
        assert messages(released(store, "disk", DISK)) == [b"pair 0"]
