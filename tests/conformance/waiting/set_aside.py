"""Test the waits that the limit in force is too low for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, requeued
from tests.conformance.grants import messages, released
from tests.conformance.sessions.session_calls import HOUR, S, forgotten_after, holding
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.permit import Permit
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class SetAside(Suite):
    def test_one_that_was_set_aside_is_forgotten_when_its_session_sleeps(
        self, store: Store, clock: Clock
    ) -> None:
        """E5, E13: it never comes to the head of the line."""
        store.ask(S)
        permit = admitted(store, claim(2), "a")
        head = parked(store, claim(2, weight=2), "head")
        clock.advance(1)
        ticket = refused(store, claim(2, weight=2), "b", holding()).ticket
        store.set_limit(1, "api")
        clock.advance(1)
        light = parked(store, claim(2), "light")
        store.sleep(S)
        for left in ([head, ticket, light], [head, light]):
            for _ in range(2):
                clock.advance(LEASE / 2)
                store.renew([permit])
                store.reap()
            assert [waiter.ticket for waiter in store.snapshot("api").waiters] == left

    def _set_aside(self, store: Store, **how: Any) -> Permit:
        """Let "b" be kept, and too heavy for the limit in force; return the permit that it waits for."""
        store.ask(S)
        permit = admitted(store, claim(2), "a")
        refused(store, claim(2, weight=2), "b", holding(**how))
        store.set_limit(1, "api")
        store.release("unknown", claim(2))
        return permit

    def test_one_that_was_set_aside_is_looked_at_by_a_sweep(
        self, store: Store, clock: Clock
    ) -> None:
        """E5: most other calls step over it at no cost, so each store has it in transit since the same moment."""
        permit = self._set_aside(store)
        due = store.snapshot("api").waiters[0].due
        store.sleep(S)
        for _ in range(2):
            clock.advance(LEASE / 2)
            store.renew([permit])
            store.release("unknown", claim(2))
        assert store.snapshot("api").waiters[0].due == due
        store.reap()
        seen = store.snapshot("api")
        assert seen.waiters[0].due == seen.at

    @pytest.mark.parametrize("limit", [0, 1])
    def test_a_limit_that_is_set_is_a_sweep_of_what_was_set_aside(
        self, store: Store, clock: Clock, limit: int
    ) -> None:
        """E5: setting a limit looks at all waits that it concerns."""
        self._set_aside(store)
        store.sleep(S)
        clock.advance(1.0)
        store.set_limit(limit, "api")
        seen = store.snapshot("api")
        assert seen.waiters[0].due == seen.at

    def test_a_permit_that_needs_another_resource_is_a_sweep_of_what_was_set_aside_there(
        self, store: Store, clock: Clock
    ) -> None:
        """E5, H7: both are looked at once more, as by a sweep."""
        disk = claim(of="disk")
        admitted(store, disk, "c")
        self._set_aside(store)
        parked(store, [*disk, *claim(2)], "d")
        store.sleep(S)
        clock.advance(1.0)
        store.release("c", disk)
        seen = store.snapshot("api")
        assert seen.waiters[0].due == seen.at

    def test_one_that_was_set_aside_keeps_its_place_as_long_as_the_broker_may_take(
        self, store: Store, clock: Clock
    ) -> None:
        """E5, E13: its broker redelivers late."""
        self._set_aside(store, keeps=HOUR)
        store.sleep(S)
        clock.advance(LEASE)
        store.reap()
        forgotten_after(HOUR, store, clock)
        assert list(store.resources()) == []

    def test_one_behind_one_that_fits_is_seen_when_it_is_the_first(
        self, store: Store, clock: Clock
    ) -> None:
        """H4, H5: only the waits before that one are stepped over."""
        store.ask(S)
        admitted(store, claim(2), "a")
        parked(store, claim(2, weight=2), "heavy")
        clock.advance(0.001)
        parked(store, claim(2), "fits")
        clock.advance(0.001)
        refused(store, claim(2, weight=2), "b", holding())
        store.set_limit(1, "api")
        store.sleep(S)
        due = store.snapshot("api").waiters[-1].due
        clock.advance(1)
        store.release("unknown", claim())
        assert store.snapshot("api").waiters[-1].due == due
        assert messages(released(store, "a", claim())) == [b"fits"]
        seen = store.snapshot("api")
        assert seen.waiters[-1].due == seen.at

    def test_one_behind_the_one_that_asks_is_not_looked_at(
        self, store: Store, clock: Clock
    ) -> None:
        """C5: only the waits before it can keep it from a permit."""
        store.ask(S)
        admitted(store, claim(3), "a")
        parked(store, claim(3, weight=3), "heavy")
        clock.advance(0.001)
        ticket = requeued(store, claim(3), "b")
        clock.advance(0.001)
        refused(store, claim(3, weight=3), "c", holding())
        store.sleep(S)
        due = store.snapshot("api").waiters[-1].due
        clock.advance(3)
        admitted(store, claim(2), "b2", came_back(ticket))
        assert store.snapshot("api").waiters[-1].due == due
