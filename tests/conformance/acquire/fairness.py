"""Test that heavy waiters are not starved while they are reachable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, came_back, claim, refused, requeued, why
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Fairness(Suite):
    def test_a_heavy_waiter_is_not_starved(self, store: Store, clock: Clock) -> None:
        """C5, H6: no lighter task takes the free capacity while the heavy one stands first."""
        store.ask(S)
        for holder in "abc":
            admitted(store, claim(4), holder)
        heavy = held(store, "heavy", claims=claim(4, weight=3))
        clock.advance(1)
        store.release("a", claim(4))
        assert granted(store) == []
        assert why(store, claim(4), "light") is Reason.SATURATED
        store.release("b", claim(4))
        assert granted(store) == [heavy.ticket]
        assert why(store, claim(4), "full") is Reason.SATURATED

    def test_a_heavy_waiter_behind_waits_behind(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        for holder in "abc":
            admitted(store, claim(3), holder)
        light = held(store, "light", claims=claim(3))
        clock.advance(1)
        heavy = held(store, "heavy", claims=claim(3, weight=2))
        for holder in "ab":
            store.release(holder, claim(3))
            assert granted(store) == [light.ticket]
        store.release("c", claim(3))
        assert granted(store) == [light.ticket, heavy.ticket]

    def test_a_heavy_waiter_in_transit_reserves_nothing(self, store: Store, clock: Clock) -> None:
        """Keep its place, but admit lighter tasks that came later."""
        admitted(store, claim(2), "a")
        heavy = requeued(store, claim(2, weight=2), "heavy")
        clock.advance(1)
        admitted(store, claim(2), "b")
        store.release("a", claim(2))
        again = refused(store, claim(2, weight=2), "heavy2", came_back(heavy))
        assert (again.ticket, again.position) == (heavy, 0)
        admitted(store, claim(2), "c")

    def test_an_unsatisfiable_waiter_blocks_nobody(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(3), "a")
        held(store, "heavy", claims=claim(3, weight=3))
        clock.advance(1)
        store.set_limit(2, "api")
        assert store.snapshot("api").waiters[0].unsatisfiable
        admitted(store, claim(3), "b")
