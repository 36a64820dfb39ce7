"""Callers of both languages and a worker's tasks stand in one line; who is inside is counted outside."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery

from celery_semaphore import AsyncSemaphore, Semaphore
from tests.conftest import StartWorker
from tests.support.calling import SOON
from tests.support.counter import Counter
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .arrivals import arrivals, displaced
from .caller import ANSWER_TIMEOUT_S
from .conftest import OpenStore, StartCaller

pytestmark = pytest.mark.timeout(400)
LIMIT = 5
NEARLY = (
    1 / 20
)  # of all places, by which a body may begin before or after its turn in the mean; at random 1 / 3


def by_threads(url: str, counter: Counter, many: int) -> None:
    api = Semaphore("api", LIMIT, url=url)

    def body(_: int) -> None:
        with api as permit, counter.inside("api", permit.holder):
            threading.Event().wait(0.005)

    with ThreadPoolExecutor(20) as executor:
        list(executor.map(body, range(many)))


def by_coroutines(url: str, counter: Counter, many: int) -> None:
    api = AsyncSemaphore("api", LIMIT, url=url)

    async def body() -> None:
        async with api as permit:
            with counter.inside("api", permit.holder):
                await asyncio.sleep(0.005)

    async def main() -> None:
        await asyncio.gather(*[body() for _ in range(many)])

    asyncio.run(main())


def entered(counter: Counter) -> list[str]:
    return [task for _, event, task, *_ in counter.log("api") if event == "entered"]


def test_never_above_the_limit(
    valkey: ValkeyServer, counter: Counter, start_caller: StartCaller, open_store: OpenStore
) -> None:
    """Two programs in JavaScript, threads and coroutines, 150 bodies each, in the order in which they came."""
    callers = [start_caller().open(valkey.url, limit=LIMIT) for _ in range(2)]
    with arrivals(valkey) as came, ThreadPoolExecutor(2) as executor:
        bodies = [each.begin("bodies", at="api", many=150, ms=5) for each in callers]
        others = [
            executor.submit(run, valkey.url, counter, 150) for run in (by_threads, by_coroutines)
        ]
        for other in others:
            other.result(ANSWER_TIMEOUT_S)
        for each in bodies:
            assert each.result(ANSWER_TIMEOUT_S) == {"done": 150, "errors": []}
    stats = counter.stats("api")
    assert (stats["completed"], stats["max_inside"]) == (600, LIMIT)
    assert displaced(came, entered(counter)) < 600 * NEARLY
    wait_until(lambda: not open_store(valkey.url).snapshot("api").holders, SOON)


def test_first_come_first_served(
    valkey: ValkeyServer, counter: Counter, start_caller: StartCaller
) -> None:
    """Two programs in JavaScript and the threads of one in Python, in turn."""
    callers = [start_caller().open(valkey.url, limit=1) for _ in range(2)]
    here = Semaphore("api", 1, url=valkey.url)
    permit = here.acquire(timeout=0)

    def by_thread(n: int) -> None:
        with here, counter.inside("api", str(n)):
            pass

    some = list[Future[Any]]()
    with ThreadPoolExecutor(10) as executor:
        for n in range(21):
            if n % 3 == 2:
                some.append(executor.submit(by_thread, n))
            else:
                some.append(callers[n % 3].begin("bodies", at="api", many=1, ms=0, task=str(n)))
            wait_until(lambda n=n: here._seen().waiting == n + 1, SOON)  # type: ignore[misc]
        here.release(permit)
        for each in some:
            each.result(ANSWER_TIMEOUT_S)
    assert entered(counter) == [str(n) for n in range(21)]


def test_beside_the_tasks_of_a_worker(
    valkey: ValkeyServer, counter: Counter, start_caller: StartCaller, start_worker: StartWorker
) -> None:
    """Waiting tasks are parked or kept; the smallest limit that is declared holds for all."""
    env = {"BROKER": valkey.database(1), "STORE": valkey.url, "LEASE": "3"}
    start_worker("tests.worker.app", concurrency=4, env=env)
    caller = start_caller().open(valkey.url, limit=3, leaseMs=3000)
    caller.acquire()
    caller.release()  # its limit is known
    client = Celery("client", broker=valkey.database(1), set_as_current=False)
    with arrivals(valkey) as came:
        for _ in range(80):
            client.send_task("call", (0.02,))
        found = caller.ask("bodies", at="api", many=80, ms=20, everyMs=10)
        assert found == {"done": 80, "errors": []}
        wait_until(lambda: counter.stats("api")["completed"] == 160, 60, "all tasks ran")
    assert counter.stats("api")["max_inside"] == 3
    assert displaced(came, entered(counter)) < 160 * NEARLY
