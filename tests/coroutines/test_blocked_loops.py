"""A loop that does not run while its coroutines wait: others behind them wait for one grant, not for each."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable

import pytest

from celery_semaphore import AsyncSemaphore, Semaphore
from celery_semaphore.core.asker import asker_of
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.store import Store
from tests.support.calling import SOON, known, thread
from tests.support.process import wait_until

from .conftest import OpenStore
from .loops import run_in, soon_nothing_is_left, until

WAITS = 18
# A grant that is not taken up, the sweep that notices its end, and the question that tells of the next one.
ONE_GRANT_S = GRANT_S + 2.0 + 1.0


def line_of(store: Store) -> int:
    return store.snapshot("api").waiting


class Blocked:
    """Runs a loop in a thread of its own, and blocks it once its calls wait in line."""

    def __init__(self, store: Store, waits: int = WAITS) -> None:
        self._store, self._api, self._waits = store, AsyncSemaphore("api", 1, store=store), waits
        self.blocked, self.runs = threading.Event(), threading.Event()

    def __call__(self) -> None:
        async def call() -> None:
            async with self._api:
                await asyncio.sleep(0.001)

        async def main() -> None:
            tasks = [asyncio.create_task(call()) for _ in range(self._waits)]
            await until(lambda: known(self._store) == self._waits)
            self.blocked.set()
            self.runs.wait(3 * SOON)
            await asyncio.gather(*tasks)

        run_in("asyncio")(main())


def seconds_of(call: Callable[[], object]) -> float:
    since = time.monotonic()
    call()
    return time.monotonic() - since


def test_another_process_waits_for_one_grant(open_store: OpenStore) -> None:
    """And then it has all permits, as long as the loop is blocked; the loop goes on where it was."""
    store = open_store(lease=4.0)
    here = Semaphore("api", 1, store=open_store(lease=4.0), timeout=4 * SOON)
    held, blocked = here.acquire(), Blocked(store)
    with thread(blocked):
        assert blocked.blocked.wait(SOON)
        with thread(lambda: here.release(held)):
            assert seconds_of(lambda: here.release(here.acquire())) < ONE_GRANT_S
        others = [seconds_of(lambda: here.release(here.acquire())) for _ in range(20)]
        assert sum(others) < ONE_GRANT_S
        blocked.runs.set()
    soon_nothing_is_left(store)


def test_others_of_the_process_have_their_turns(open_store: OpenStore) -> None:
    """A thread and another loop stand behind the calls of the one that is blocked."""
    store = open_store(lease=4.0)
    other = Semaphore("api", 1, store=open_store(lease=4.0))
    held, blocked, took = other.acquire(), Blocked(store), list[float]()

    def by_thread() -> None:
        api = Semaphore("api", 1, store=store, timeout=4 * SOON)
        took.append(seconds_of(lambda: api.release(api.acquire())))

    def by_loop() -> None:
        async def main() -> None:
            async with AsyncSemaphore("api", 1, store=store, timeout=4 * SOON):
                pass

        took.append(seconds_of(lambda: asyncio.run(main())))

    with thread(blocked):
        assert blocked.blocked.wait(SOON)
        with thread(by_thread), thread(by_loop):
            wait_until(lambda: line_of(store) == WAITS + 2)
            other.release(held)
        blocked.runs.set()
    assert max(took) < ONE_GRANT_S + 1.0
    soon_nothing_is_left(store)


def test_a_loop_that_runs_again_in_time_loses_nothing(open_store: OpenStore) -> None:
    """Its grant lasts, though the process has another session by then; and so do the places of the others."""
    store = open_store(lease=4.0)
    other = Semaphore("api", 1, store=open_store(lease=4.0), timeout=SOON)
    held, blocked = other.acquire(), Blocked(store, 3)
    session = asker_of(store).session
    with thread(blocked):
        assert blocked.blocked.wait(SOON)
        other.release(held)
        wait_until(lambda: asker_of(store).session != session, GRANT_S)
        (granted,) = store.snapshot("api").holders
        assert granted.granted
        blocked.runs.set()
        wait_until(lambda: line_of(store) == 0, GRANT_S / 2, "all had their turns")
    soon_nothing_is_left(store)


@pytest.mark.parametrize("closed", [False, True])
def test_a_loop_that_runs_no_more(open_store: OpenStore, *, closed: bool) -> None:
    """Its tasks are referred to, so the collector does not end them."""
    store = open_store(lease=4.0)
    here = Semaphore("api", 1, store=open_store(lease=4.0), timeout=4 * SOON)
    held, loop = here.acquire(), asyncio.new_event_loop()
    api = AsyncSemaphore("api", 1, store=store)
    tasks = [loop.create_task(api.acquire()) for _ in range(WAITS)]
    loop.run_until_complete(until(lambda: known(store) == WAITS))
    if closed:
        loop.close()
    with thread(lambda: here.release(held)):
        assert seconds_of(lambda: here.release(here.acquire())) < ONE_GRANT_S
    if not closed:
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks))
        loop.close()
    del tasks
    gc.collect()
    soon_nothing_is_left(store)
