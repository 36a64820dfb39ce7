"""Heavy waiters are not starved, and block nobody for ever."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Kind, Reason, Wait
from .suite import LEASE, Suite, admitted, came_back, claim, requeued, why

if TYPE_CHECKING:
    from ...core.store import Store
    from ..clock import Clock

REQUEUE = Wait(Kind.REQUEUE)


class Fairness(Suite):
    def test_a_heavy_waiter_is_not_starved(self, store: Store, clock: Clock) -> None:
        for holder in "abc":
            admitted(store, claim(4), holder)
        heavy = requeued(store, claim(4, weight=3), "heavy")
        clock.advance(1)
        store.release("a", claim(4))
        assert why(store, claim(4), "light") is Reason.SATURATED
        store.release("b", claim(4))
        admitted(store, claim(4, weight=3), "heavy2", came_back(heavy))
        assert why(store, claim(4), "full") is Reason.SATURATED

    def test_what_a_heavy_waiter_does_not_need_is_free(self, store: Store, clock: Clock) -> None:
        for holder in "ab":
            admitted(store, claim(6), holder)
        admitted(store, claim(6, weight=3), "c")
        requeued(store, claim(6, weight=3), "heavy")
        clock.advance(1)
        store.release("a", claim(6))
        store.release("c", claim(6, weight=3))
        admitted(store, claim(6), "light")  # 2 + 3 of 6 are spoken for after this
        admitted(store, claim(6), "light2")
        assert why(store, claim(6), "light3") is Reason.SATURATED

    def test_a_heavy_waiter_behind_waits_behind(self, store: Store, clock: Clock) -> None:
        for holder in "abc":
            admitted(store, claim(3), holder)
        light = requeued(store, claim(3), "light")
        clock.advance(1)
        requeued(store, claim(3, weight=3), "heavy")
        store.release("a", claim(3))
        admitted(store, claim(3), "light2", came_back(light))

    def test_a_heavy_waiter_that_never_comes_back_blocks_nobody_for_long(
        self, store: Store, clock: Clock
    ) -> None:
        permit = admitted(store, claim(2), "a")
        requeued(store, claim(2, weight=2), "heavy", longest=1.0)
        clock.advance(0.5)
        assert why(store, claim(2), "b") is Reason.SATURATED
        clock.advance(LEASE - 1)
        store.renew([permit])
        clock.advance(2)
        admitted(store, claim(2), "c")

    def test_an_unsatisfiable_waiter_blocks_nobody(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(3), "a")
        requeued(store, claim(3, weight=3), "heavy")
        clock.advance(1)
        store.set_limit(2, "api")
        assert store.snapshot("api").waiters[0].unsatisfiable
        admitted(store, claim(3), "b")
