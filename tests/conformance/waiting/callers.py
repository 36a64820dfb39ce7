"""Test blocking calls: they learn of their grants by the questions of their process."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.acquisition import ASKS
from celery_semaphore.core.blocking_waiter import BlockingWaiter
from tests.conformance.acquire.crowd import Bodies
from tests.conformance.acquisition import admitted, claim
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

LONG = 30.0  # real seconds; no call waits so long
HEARS_S = 0.8 * LEASE / ASKS  # real seconds, in which a call does not ask again by itself


def wait_until(predicate: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG / 2
    while not predicate():
        assert time.monotonic() < end
        time.sleep(0.01)


def _end(holder: str, store: Store, clock: Clock) -> None:
    """Pass leases until the permit of this holder has ended.

    A question of another thread that read the clock before a lease passed may reach the store after it. That is a
    clock that stepped back, and then a silence, in which no permit ends (A17).
    """

    def has_ended() -> bool:
        clock.advance(LEASE)
        store.reap()
        return all(each.holder != holder for each in store.snapshot("api").holders)

    wait_until(has_ended)


class Callers(Suite):
    """Uses the real clock, by which a call asks again three times in a lease; the store's own clock stands still."""

    @pytest.mark.parametrize("how", ["release", "reap", "limit"])
    def test_a_call_hears_while_it_waits(self, store: Store, clock: Clock, how: str) -> None:
        admitted(store, claim(), "a")
        got: list[str] = []

        def call() -> None:
            permit, _ = BlockingWaiter(store, claim(), 10 * LONG).acquire()
            got.append(permit.holder)
            store.release(permit.holder, claim())

        thread = Thread(target=call, daemon=True)
        thread.start()
        wait_until(lambda: store.snapshot("api").waiting == 1)
        assert got == []
        if how == "release":
            store.release("a", claim())
        elif how == "reap":
            _end("a", store, clock)
        else:
            store.set_limit(2, "api")
        thread.join(HEARS_S)
        assert len(got) == 1

    def test_a_crowd_of_callers(self, store: Store) -> None:
        """Admit all callers, and never more than the limit at once."""
        bodies, wanted = Bodies(), claim(3)

        def call(n: int) -> None:
            permit, _ = BlockingWaiter(store, wanted, LONG).acquire()
            with bodies.running(str(n)):
                pass
            store.release(permit.holder, wanted)

        with ThreadPoolExecutor(12) as crowd:
            list(crowd.map(call, range(200)))
        assert sorted(map(int, bodies.ran)) == list(range(200))
        assert bodies.most <= 3
        assert list(store.resources()) == []
