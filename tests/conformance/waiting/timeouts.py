"""Test timeouts: a wait that is over, and one that has no time at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, requeued
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Timeouts(Suite):
    def test_a_wait_times_out(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        ticket = requeued(store, claim(), "b", timeout=10.0)
        clock.advance(9)
        again = refused(store, claim(), "b2", came_back(ticket, timeout=10.0))
        assert (again.reason, again.retry_after) == (Reason.PAUSED, 1.0)
        clock.advance(1)
        last = refused(store, claim(), "b3", came_back(ticket, timeout=10.0))
        assert (last.reason, last.ticket, last.waited) == (Reason.TIMED_OUT, None, 10.0)
        assert store.snapshot("api").waiting == 0

    @pytest.mark.parametrize("kind", list(Kind))
    def test_who_has_no_time_to_wait_takes_what_is_free(
        self, store: Store, clock: Clock, kind: Kind
    ) -> None:
        at_once = Wait(kind, timeout=0.0)
        for holder in "abc":  # a new resource, one that was used, and one with a waiter
            admitted(store, claim(), holder, at_once)
            if holder == "b":
                requeued(store, claim(), "x")
            last = refused(store, claim(), f"{holder}2", at_once)
            assert (last.reason, last.ticket) == (Reason.TIMED_OUT, None)
            store.release(holder, claim())
            clock.advance(1)

    def test_who_comes_back_at_once_takes_what_is_free(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        waiting = came_back(ticket, Kind.PARK, timeout=0.0)
        assert refused(store, claim(), "b1", waiting).reason is Reason.TIMED_OUT
        store.release("a", claim())
        admitted(store, claim(), "b2", waiting)

    def test_who_is_late_but_fits_is_admitted(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b", timeout=10.0)
        store.release("a", claim())
        clock.advance(11)
        admitted(store, claim(), "b2", came_back(ticket, timeout=10.0))
