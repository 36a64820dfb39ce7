"""Test a store that forgot only its last moments: a replica that lags took over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, parked, why
from tests.conformance.grants import reaped, released
from tests.conformance.suite import GRACE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Failovers(Suite):
    def test_it_lost_what_came_after_and_nothing_else(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(2), "a")
        lose_the_rest = self.remember(store)
        admitted(store, claim(2), "b")
        lose_the_rest()
        assert [held.holder for held in store.snapshot("api").holders] == ["a"]
        assert why(store, claim(2), "c") is Reason.RECOVERING
        clock.advance(GRACE)
        admitted(store, claim(2), "d")

    @pytest.mark.parametrize("sent", [False, True])
    def test_a_grant_is_its_holders_where_its_taking_up_is_forgotten(
        self, store: Store, clock: Clock, *, sent: bool
    ) -> None:
        both = claim(2, weight=2) + claim(of="disk")
        admitted(store, both, "a")
        ticket = parked(store, both, "b")
        grants = released(store, "a", both)
        if sent:
            store.sent(grants)
        lose_the_rest = self.remember(store)
        store.sent(grants)
        permit = admitted(store, both, "b2", came_back(ticket, Kind.PARK))
        lose_the_rest()
        clock.advance(1)
        assert store.renew([permit]) == {"b2": Renewal.RESTORED}
        for resource, weight in (("api", 2), ("disk", 1)):
            seen = store.snapshot(resource)
            (held,) = seen.holders
            assert (held.holder, held.weight, held.granted) == ("b2", weight, False)
            assert seen.waiting == 0
        assert store.renew([permit]) == {"b2": Renewal.OK}
        clock.advance(TAKE_UP)
        assert reaped(store) == []  # its message was delivered
        assert not store.release("b2", both).outgoing
        assert list(store.resources()) == []

    def test_only_its_own_grant_is_a_holders(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        permit = admitted(store, claim(2), "x")
        tickets = [parked(store, claim(2), holder) for holder in "bc"]
        store.release("a", claim(2))
        store.release("x", claim(2))
        lose_the_rest = self.remember(store)
        admitted(store, claim(2), "b2", came_back(tickets[0], Kind.PARK))
        lose_the_rest()
        other = replace(permit, holder="y")  # unknown to this epoch
        assert store.renew([other]) == {"y": Renewal.RESTORED}
        seen = [held.ticket for held in store.snapshot("api").holders if held.ticket]
        assert seen == tickets
