"""Four classes that are often written by hand, as thin adapters over ours: they keep what they promise."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from celery_semaphore import AsyncSemaphore, Semaphore, SemaphoreTimeout
from celery_semaphore.core.permit import Permit
from tests.support.calling import SOON, Inside, thread
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

T = TypeVar("T")


class DistributedSemaphore:
    """Holds permits of a limit that counts across processes."""

    def __init__(self, redis_url: str, name: str, limit: int, timeout: float = 30) -> None:
        self._semaphore = Semaphore(name, limit, url=redis_url, lease=timeout)

    def acquire(self, *, blocking: bool = True) -> Permit | None:
        try:
            return self._semaphore.acquire(None if blocking else 0)
        except SemaphoreTimeout:
            return None

    def release(self, permit: Permit) -> None:
        self._semaphore.release(permit)

    def extend(self, permit: Permit) -> None:
        self._semaphore.extend(permit)

    def get_available(self) -> int:
        return self._semaphore.available()

    def get_holders(self) -> list[str]:
        return [held.holder for held in self._semaphore.holders()]

    @contextmanager
    def permit(self, *, blocking: bool = True) -> Iterator[Permit]:
        with self._semaphore.permit(timeout=None if blocking else 0) as permit:
            yield permit


class FairSemaphore:
    """Admits in the order in which its callers came."""

    def __init__(self, redis_url: str, name: str, limit: int) -> None:
        self._semaphore = Semaphore(name, limit, url=redis_url)

    def acquire(self, wait_timeout: float = 30) -> Permit | None:
        try:
            return self._semaphore.acquire(wait_timeout)
        except SemaphoreTimeout:
            return None

    def release(self, permit: Permit) -> None:
        self._semaphore.release(permit)


class ConnectionPoolLimiter:
    """Opens at most so many connections, on all machines together."""

    def __init__(self, redis_url: str, limit: int, connect: Callable[[], Any]) -> None:
        self._semaphore = Semaphore("connections", limit, url=redis_url)
        self._connect = connect
        self._idle = SimpleQueue[Any]()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        with self._semaphore:
            connection = self._connect() if self._idle.empty() else self._idle.get()
            try:
                yield connection
            finally:
                self._idle.put(connection)


class ConcurrentAPILimiter:
    """Makes at most so many calls of an API at once, from coroutines."""

    def __init__(self, redis_url: str, limit: int) -> None:
        self._semaphore = AsyncSemaphore("calls", limit, url=redis_url)

    async def call_api(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._semaphore:
            return await call()


def test_distributed(valkey: ValkeyServer) -> None:
    jobs, inside = DistributedSemaphore(valkey.url, "jobs", 3), Inside()

    def work() -> None:
        with jobs.permit(), inside():
            time.sleep(0.002)

    with ExitStack() as threads:
        for _ in range(60):
            threads.enter_context(thread(work))
    assert (inside.most, inside.entries) == (3, 60)
    permits = [jobs.acquire(blocking=False) for _ in range(4)]
    assert permits[3] is None
    held = [permit for permit in permits if permit]
    assert jobs.get_holders() == [permit.holder for permit in held]
    assert jobs.get_available() == 0
    for permit in held:
        jobs.extend(permit)
        jobs.release(permit)
    assert jobs.get_available() == 3


def test_fair(valkey: ValkeyServer) -> None:
    line, came = FairSemaphore(valkey.url, "line", 1), list[int]()
    first = line.acquire()
    assert first
    assert line.acquire(wait_timeout=0.1) is None

    def enter(n: int) -> None:
        permit = line.acquire(SOON)
        assert permit
        came.append(n)
        line.release(permit)

    with ExitStack() as threads:
        for n in range(10):
            threads.enter_context(thread(lambda n=n: enter(n)))  # type: ignore[misc]
            wait_until(lambda n=n: line._semaphore._seen().waiting == n + 1)  # type: ignore[misc]
        line.release(first)
    assert came == list(range(10))


def test_connections(valkey: ValkeyServer) -> None:
    opened, inside = list[object](), Inside()

    def connect() -> object:
        opened.append(object())
        return opened[-1]

    pool = ConnectionPoolLimiter(valkey.url, 3, connect)

    def use() -> None:
        with pool.connection(), inside():
            time.sleep(0.002)

    with ExitStack() as threads:
        for _ in range(60):
            threads.enter_context(thread(use))
    assert inside.most <= 3
    assert len(opened) <= 3


def test_calls_of_an_api(valkey: ValkeyServer) -> None:
    """The loop goes on while they wait, and all calls are made."""
    limiter, now, most = ConcurrentAPILimiter(valkey.url, 3), list[int](), list[int]()
    here = threading.get_ident()

    async def call() -> int:
        now.append(1)
        most.append(len(now))
        await asyncio.sleep(0.002)
        now.pop()
        return threading.get_ident()

    async def main() -> list[int]:
        return await asyncio.gather(*[limiter.call_api(call) for _ in range(60)])

    assert asyncio.run(main()) == [here] * 60
    assert max(most) == 3
