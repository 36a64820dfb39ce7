"""Test the counts of a resource for metrics: its permits and limits, of many resources at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.store import TOTALLED
from celery_semaphore.core.totals import Totals
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, named, parked, requeued, why
from tests.conformance.grants import released
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import GRACE, LEASE, TAKE_UP, Suite, UsedClock

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

NONE = Totals("api", None, False, 0, 0, 0, 0, 0, 0, None, 0, None)


def counted(store: Store, resource: str = "api") -> Totals:
    """Return the totals, which agree with a snapshot of the same instant."""
    (totals,) = store.totals([resource])
    seen = store.snapshot(resource, waiters=1000)
    holders = [(one.granted, one.weight) for one in seen.holders]
    assert totals.held == sum(weight for granted, weight in holders if not granted)
    assert totals.granted == sum(weight for granted, weight in holders if granted)
    assert (totals.limit, totals.set_by_operator) == (seen.limit, seen.set_by_operator)
    assert (totals.waiting, totals.occupied, totals.kept) == (
        seen.waiting,
        seen.occupied,
        seen.kept,
    )
    assert totals.mean_held == seen.mean_held
    began = min((waiter.ticket.since for waiter in seen.waiters), default=None)
    assert totals.oldest_wait == (
        None if began is None else pytest.approx(seen.at - began, abs=1e-6)
    )
    assert totals.parked + totals.reachable >= sum(waiter.reachable for waiter in seen.waiters)
    return totals


def line(totals: Totals) -> tuple[int, int, int, int]:
    return totals.parked, totals.reachable, totals.in_transit, totals.set_aside


class ResourceTotals(Suite):
    def test_what_is_not_in_use_has_zeros(self, store: Store) -> None:
        assert store.totals(["api"]) == [NONE]
        assert list(store.resources()) == []
        admitted(store, claim(of="disk"), "a")
        assert counted(store) == NONE

    def test_permits_count_by_weight(self, store: Store) -> None:
        admitted(store, claim(7, weight=2), "a")
        admitted(store, claim(7, weight=3), "b")
        admitted(store, claim(7), "c")
        totals = counted(store)
        assert (totals.held, totals.granted, totals.limit) == (6, 0, 7)
        store.release("b", claim(7, weight=3))
        assert counted(store).held == 3

    def test_what_is_overdue_does_not_count(self, store: Store, clock: Clock) -> None:
        """Count it neither as held nor as granted, though nothing has ended it yet."""
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "b")
        parked(store, claim(2), "c")
        store.sent(released(store, "a", claim(2)))
        assert (counted(store).held, counted(store).granted) == (1, 1)
        clock.advance(TAKE_UP)
        assert (counted(store).held, counted(store).granted) == (1, 0)
        clock.advance(LEASE - TAKE_UP)
        assert (counted(store).held, counted(store).granted) == (0, 0)

    def test_in_the_grace_all_counts(self, store: Store, clock: Clock) -> None:
        """Count those of holders that could not renew, since the server was away."""
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "gone")
        clock.advance(LEASE - 1)
        store.release("gone", claim(2))
        lose_the_rest = self.remember(store)
        lose_the_rest()
        assert why(store, claim(2), "b") is Reason.RECOVERING
        clock.advance(GRACE - 0.001)
        assert counted(store).held == 1
        requeued(store, claim(2), "c")
        assert counted(store).held == 1
        clock.advance(0.001)
        assert counted(store).held == 0

    def test_grants_count_by_weight_until_they_are_taken_up(self, store: Store) -> None:
        admitted(store, claim(4, weight=4), "a")
        ticket = parked(store, claim(4, weight=3), "b")
        store.sent(released(store, "a", claim(4, weight=4)))
        totals = counted(store)
        assert (totals.held, totals.granted, totals.waiting) == (0, 3, 0)
        admitted(store, claim(4, weight=3), "b2", came_back(ticket, Kind.PARK))
        totals = counted(store)
        assert (totals.held, totals.granted, totals.waiting) == (3, 0, 0)

    def test_limits_of_operators(self, store: Store) -> None:
        admitted(store, claim(5, key="x"), "a")
        admitted(store, claim(5, key="y"), "a")
        store.set_limit(0, "api")
        store.set_limit(3, "api/x")
        found = store.totals(["api", "api/x", "api/y", "api/z", "disk"])
        limits = [(each.limit, each.set_by_operator) for each in found]
        assert limits == [(0, True), (3, True), (0, True), (0, True), (None, False)]
        store.set_limit(None, "api")
        found = store.totals(["api", "api/x", "api/y"])
        limits = [(each.limit, each.set_by_operator) for each in found]
        assert limits == [(None, False), (3, True), (5, False)]
        for name in ("api", "api/x", "api/y"):
            counted(store, name)

    def test_all_in_the_order_that_was_asked_for(self, store: Store) -> None:
        for n in range(TOTALLED // 2):
            admitted(store, claim(of="of", key=str(n)), "a")
        parked(store, claim(of="of", key="7"), "b")
        names = [f"of/{n}" for n in reversed(range(TOTALLED))]
        found = store.totals(names)
        assert [each.resource for each in found] == names
        assert [each.resource for each in found if each.held] == names[TOTALLED // 2 :]
        assert [each.resource for each in found if each.parked] == ["of/7"]
        assert store.totals(["of/7", "of/8", "of/7"]) == [found[-8], found[-9], found[-8]]
        assert store.totals([]) == []

    def test_too_many_at_once(self, store: Store) -> None:
        with pytest.raises(
            ValueError, match=f"{TOTALLED} resources in one call, not {TOTALLED + 1}"
        ):
            store.totals(["api"] * (TOTALLED + 1))

    def test_counting_ends_nothing(self, store: Store, clock: Clock) -> None:
        """Leave what is overdue to the calls that may end it."""
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        named(store, "c", ends_in=1.0)
        requeued(store, claim(), "d")
        clock.advance(10 * LEASE)
        before = store.snapshot("api")
        for _ in range(3):
            assert line(counted(store)) == (1, 1, 1, 0)
        assert store.snapshot("api") == before
        clock.advance(-10 * LEASE)
        assert counted(store).held == 1
        assert not store.ask(S).slept

    def test_counting_begins_no_epoch(self, store: Store, clock: UsedClock) -> None:
        """Otherwise the grace would begin with it, or be forgotten by its caller."""
        admitted(store, claim(), "a")
        known = store.epoch
        self.forget(store)
        clock.advance(1)
        assert store.totals(["api"]) == [NONE]
        assert store.epoch == known
        clock.pass_in_silence(LEASE)
        assert why(store, claim(), "b") is Reason.RECOVERING
        assert store.epoch != known

    def test_counting_in_a_store_that_was_never_used(self, store: Store) -> None:
        assert store.totals(["api"]) == [NONE]
        assert store.epoch is None
        admitted(store, claim(), "a")

    def test_counting_tells_a_client_of_no_epoch(self, store: Store, clock: Clock) -> None:
        """Let it know the older one until a call gives it a grace."""
        admitted(store, claim(2), "a")
        known = store.epoch
        self.forget(store)
        clock.advance(1)
        store.epoch = None  # of another client, which knows of nothing before
        admitted(store, claim(2), "b")
        store.epoch = known
        store.totals(["api"])
        assert why(store, claim(2), "c") is Reason.RECOVERING
