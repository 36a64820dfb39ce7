"""Semaphore and asyncio: a wait must not stop an event loop, on which the release may depend."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from celery_semaphore import Semaphore, SemaphoreError, SemaphoreTimeout
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, occupied, thread, waiting
from tests.support.greenlets import GreenletPool, greenlets
from tests.test_imports import run


class TestInTheLoop:
    def test_a_wait_is_refused_before_the_store_is_asked(
        self, api: Semaphore, store: MemoryStore
    ) -> None:
        async def acquire() -> None:
            with pytest.raises(SemaphoreError, match="AsyncSemaphore") as caught:
                api.acquire()
            assert "semaphore 'api': waiting here stops the asyncio loop" in str(caught.value)

        asyncio.run(acquire())
        assert (occupied(store), waiting(store)) == (0, 0)

    def test_so_are_with_and_the_decorator(self, api: Semaphore, store: MemoryStore) -> None:
        async def enter() -> None:
            with pytest.raises(SemaphoreError, match="AsyncSemaphore"), api:
                pass
            with pytest.raises(SemaphoreError, match="AsyncSemaphore"):
                api(lambda: None)()

        asyncio.run(enter())
        assert occupied(store) == 0

    def test_it_may_ask_once_and_release(self, store: MemoryStore) -> None:
        """Each is one short call of the store."""
        one = Semaphore("api", 1, store=store)

        async def ask_once() -> None:
            permit = one.acquire(timeout=0)
            with pytest.raises(SemaphoreTimeout):
                one.acquire(timeout=0)
            with Semaphore("other", 1, store=store, timeout=0):
                assert occupied(store, "other") == 1
            one.extend(permit)
            one.release(permit)

        asyncio.run(ask_once())
        assert occupied(store) == 0

    def test_what_was_acquired_in_an_executor_is_released_in_the_loop(
        self, store: MemoryStore
    ) -> None:
        """The way that the error names: more wait than the executor has threads."""
        two, inside = Semaphore("api", 2, store=store, timeout=SOON), list[int]()

        async def call(executor: ThreadPoolExecutor) -> None:
            permit = await asyncio.get_running_loop().run_in_executor(executor, two.acquire)
            inside.append(occupied(store))
            await asyncio.sleep(0.01)
            two.release(permit)

        async def call_all() -> None:
            with ThreadPoolExecutor(3) as executor:
                await asyncio.gather(*[call(executor) for _ in range(12)])

        asyncio.run(call_all())
        assert len(inside) == 12
        assert max(inside) == 2
        assert occupied(store) == 0


class TestBesideALoop:
    def test_of_another_thread(self, api: Semaphore) -> None:
        running, ended = threading.Event(), threading.Event()

        async def loop() -> None:
            running.set()
            await asyncio.to_thread(ended.wait, SOON)

        with thread(lambda: asyncio.run(loop())):
            assert running.wait(SOON)
            with api:
                ended.set()

    def test_that_is_over(self, api: Semaphore) -> None:
        asyncio.run(asyncio.sleep(0))
        with api:
            pass

    @greenlets
    def test_of_another_greenlet(self, pool: GreenletPool) -> None:
        """All of them are in one thread of the system's."""
        script = """
import asyncio, threading
from celery_semaphore import Semaphore, SemaphoreError
one = Semaphore("api", 8, url="memory://", timeout=5)
async def in_loop():
    await asyncio.sleep(0.2)
    try:
        one.acquire()
    except SemaphoreError:
        return "refused"
looping = []
def ask():
    if not looping:
        looping.append(True)
        assert asyncio.run(in_loop()) == "refused"
        return
    time.sleep(0.1)
    assert asyncio._get_running_loop() is not None, "found from this greenlet"
    with one:
        time.sleep(0.05)
"""
        assert pool.seconds_of_eight(script) < 10


def test_asyncio_is_not_imported_for_it() -> None:
    """Where a program does not use it, its import would cost more than all of ours."""
    code = "import sys; from celery_semaphore import semaphore; print('asyncio' in sys.modules)"
    assert run(code).split() == ["False"]
