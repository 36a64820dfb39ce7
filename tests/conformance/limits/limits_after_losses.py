"""Test which permits a store restores that forgot the limits, too: row A2 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, why
from tests.conformance.limits.declared_limits import declare, limit_of
from tests.conformance.suite import GRACE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


def all_admitted(store: Store, own: int | None, count: int) -> list[Permit]:
    return [admitted(store, claim(own), f"{own}:{n}") for n in range(count)]


class LimitsAfterLosses(Suite):
    def test_those_that_declared_none_are_restored(self, store: Store, clock: Clock) -> None:
        """Let no limit be known when they renew."""
        declare(store, 3)
        permits = all_admitted(store, None, 3)
        self.forget(store)
        assert set(store.renew(permits).values()) == {Renewal.RESTORED}
        assert limit_of(store) is None
        clock.advance(GRACE)
        assert set(store.renew(permits).values()) == {Renewal.OK}
        assert why(store, claim(3), "x") is Reason.SATURATED
        assert store.snapshot("api").occupied == 3

    def test_those_that_declared_none_outlive_two_losses(self, store: Store, clock: Clock) -> None:
        """After the second one the store knows permits that it restored after the first."""
        declare(store, 3)
        permits = all_admitted(store, None, 3)
        self.forget(store)
        assert set(store.renew(permits).values()) == {Renewal.RESTORED}
        clock.advance(1)
        lose_the_rest = self.remember(store)
        store.release("None:2", claim(None))
        lose_the_rest()
        assert set(store.renew(permits[:2]).values()) == {Renewal.OK}
        assert why(store, claim(3), "x") is Reason.RECOVERING
        clock.advance(GRACE)
        assert set(store.renew(permits[:2]).values()) == {Renewal.OK}
        assert why(store, claim(2), "x") is Reason.SATURATED

    @pytest.mark.parametrize("own", [5, None])
    def test_a_stray_lower_limit_ends_none(
        self, store: Store, clock: Clock, own: int | None
    ) -> None:
        """It is the first that the store learns, and is in force for all that come later."""
        declare(store, 5)
        permits = all_admitted(store, own, 5)
        self.forget(store)
        assert why(store, claim(1), "stray") is Reason.RECOVERING
        assert set(store.renew(permits).values()) == {Renewal.RESTORED}
        assert (limit_of(store), store.snapshot("api").occupied) == (1, 5)
        clock.advance(GRACE)
        assert set(store.renew(permits).values()) == {Renewal.OK}
        assert why(store, claim(5), "x") is Reason.SATURATED

    def test_not_more_than_each_declares(self, store: Store) -> None:
        """Let five renew that were never admitted together, as after a split of the network."""
        permits = all_admitted(store, 5, 5)
        self.forget(store)
        declare(store, 1)
        lower = [
            Permit(each.holder, each.token, tuple(claim(2)), 0, 0, each.epoch) for each in permits
        ]
        renewals = list(store.renew(lower).values())
        assert renewals == [Renewal.RESTORED] * 2 + [Renewal.LOST] * 3

    @pytest.mark.parametrize("own", [5, None])
    def test_the_limit_of_an_operator_bounds_all(self, store: Store, own: int | None) -> None:
        declare(store, 5)
        permits = all_admitted(store, own, 3)
        self.forget(store)
        store.set_limit(2, "api")
        renewals = list(store.renew(permits).values())
        assert renewals == [Renewal.RESTORED] * 2 + [Renewal.LOST]
