"""Tasks of a worker, threads and coroutines of another process: within one limit, in one line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from statistics import mean
from typing import Any

import pytest

from celery_semaphore import AsyncSemaphore, Semaphore
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.store import Store
from tests.coroutines.loops import until
from tests.support.counter import CounterServer
from tests.support.held_permits import forgotten_after
from tests.support.servers import ValkeyServer

from .conftest import Site, site_on

LIMIT, WAITING = 5, 60


@pytest.fixture(params=["valkey", "postgres"])
def site_of_store(
    request: pytest.FixtureRequest, valkey: ValkeyServer, counter_server: CounterServer
) -> Iterator[Site]:
    """A site with its permits in this store."""
    server: Any = request.getfixturevalue(request.param)
    options = {} if request.param == "valkey" else {"store_url": server.url}
    with forgotten_after():
        yield from site_on(valkey, counter_server, **options)


class Callers:
    """Begin to wait in this process, or send a task, by turns."""

    def __init__(self, site: Site, executor: ThreadPoolExecutor) -> None:
        options: Any = {"url": site.store_url, "lease": site.lease, "timeout": 60}
        self._here = Semaphore("api", LIMIT, **options)
        self._there = AsyncSemaphore("api", LIMIT, **options)
        self._site, self._executor = site, executor
        self._ends = list[asyncio.Future[None]]()

    def call(self, n: int, name: str) -> None:
        if n % 3 == 0:
            self._site.send("call", 0.05, "api", task_id=name)
        elif n % 3 == 1:
            loop = asyncio.get_running_loop()
            self._ends.append(loop.run_in_executor(self._executor, self._by_thread, name))
        else:
            self._ends.append(asyncio.ensure_future(self._by_loop(name)))

    async def wait(self) -> None:
        await asyncio.gather(*self._ends)
        for result in self._site.results:
            result.get(timeout=30)

    def _by_thread(self, name: str) -> None:
        with self._here, self._site.counter.inside("api", name):
            time.sleep(0.05)

    async def _by_loop(self, name: str) -> None:
        async with self._there:
            with self._site.counter.inside("api", name):
                await asyncio.sleep(0.05)


def test_in_the_order_in_which_they_came(site_of_store: Site) -> None:
    """Each begins to wait once the one before it is in line; some overtake, as their processes learn of a grant."""
    site, names = site_of_store, [f"{n} in line" for n in range(WAITING)]
    site.counter.reset()
    site.start(concurrency=LIMIT + 1)
    site.occupy(LIMIT, "call", "api")

    async def main(executor: ThreadPoolExecutor, store: Store) -> None:
        callers = Callers(site, executor)
        for n, name in enumerate(names):
            callers.call(n, name)
            await until(lambda n=n: store.snapshot("api").waiting > n)  # type: ignore[misc]
        site.let_go("api")
        await callers.wait()

    with ThreadPoolExecutor(WAITING // 3) as executor, closing(site.store()) as store:
        asyncio.run(main(executor, store))
    log = site.counter.log("api")
    entered = [task for _, event, task, *_ in log if event == "entered" and task in names]
    assert sorted(entered) == sorted(names)
    assert mean(abs(n - entered.index(name)) for n, name in enumerate(names)) < 10
    assert site.counter.stats("api")["max_inside"] == LIMIT
    site.wait_all_back(Claim("api", None, LIMIT), 10)
