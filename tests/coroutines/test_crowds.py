"""Many coroutines on real servers; the truth about who is inside comes from another process."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from celery_semaphore import AsyncSemaphore, Semaphore, SemaphoreTimeout
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.loop_calls import loop_calls_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from tests.conftest import StartServer
from tests.support.calling import SOON
from tests.support.counter import Counter
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from .conftest import OpenStore
from .loops import Run, run_in, soon_nothing_is_left, threads_of_ours, until

BODIES, LIMIT = 300, 5
Body = Callable[[], Awaitable[None]]


async def by_cancel(body: Body, after: float) -> None:
    task = asyncio.ensure_future(body())
    await asyncio.sleep(after)
    task.cancel()
    await asyncio.wait([task])


async def by_timeout(body: Body, after: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(after):
            await body()


async def by_scope(body: Body, after: float) -> None:
    with anyio.move_on_after(after):
        await body()


async def by_sibling(body: Body, after: float) -> None:
    async def fail() -> None:
        await asyncio.sleep(after)
        raise LookupError

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(body())  # type: ignore[arg-type]
            group.create_task(fail())


@pytest.mark.parametrize("end", [by_cancel, by_timeout, by_scope, by_sibling])
def test_cancelled_at_random_moments(
    open_store: OpenStore, counter: Counter, run: Run[Any], end: Callable[[Body, float], Any]
) -> None:
    """Every other one; all others come to their end."""
    store, rng = open_store(), random.Random(3)
    api = AsyncSemaphore("api", LIMIT, store=store)

    async def body() -> None:
        async with api:
            with counter.inside("api", "body"):
                await asyncio.sleep(0.005)

    async def main() -> None:
        some = [body() if n % 2 else end(body, rng.random() / 4) for n in range(BODIES)]
        await asyncio.gather(*some)

    run(main())
    soon_nothing_is_left(store)
    stats = counter.stats("api")
    assert stats["completed"] >= BODIES // 2
    assert stats["inside"] == 0
    assert stats["max_inside"] <= LIMIT


def test_none_is_cancelled(open_store: OpenStore, counter: Counter, run: Run[Any]) -> None:
    store = open_store()
    api = AsyncSemaphore("api", LIMIT, store=store, timeout=60)

    @api
    async def body() -> None:
        with counter.inside("api", "body"):
            await asyncio.sleep(0.005)

    async def main() -> None:
        await asyncio.gather(*[body() for _ in range(BODIES)])

    run(main())
    soon_nothing_is_left(store)
    stats = counter.stats("api")
    assert (stats["completed"], stats["max_inside"]) == (BODIES, LIMIT)


@pytest.mark.parametrize(
    ("server", "keys", "bodies"),
    [
        ("postgres", 1, 80),
        ("valkey", 4, 250),
        *also(("postgres", 4, 30), ("postgres", 8, 250)),
    ],
)
def test_a_crowd_that_gives_up_again_and_again(
    request: pytest.FixtureRequest, counter: Counter, server: str, *, keys: int, bodies: int
) -> None:
    """Each leaves a place in line. If acquires came before its release, the permits would go to such places alone."""
    url = request.getfixturevalue(server).url
    some = [AsyncSemaphore("api", LIMIT, key=str(key), url=url) for key in range(keys)]
    rng = random.Random(4)

    async def body(end: float) -> None:
        while time.monotonic() < end:
            key = rng.randrange(keys)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    permit = await some[key].acquire()
                with counter.inside(f"api/{key}", "body"):
                    await asyncio.sleep(0.01)
                await some[key].release(permit)

    async def crowd() -> int:
        end = time.monotonic() + 5
        await asyncio.gather(*[body(end) for _ in range(bodies)])
        return releases_left(some[0]._store)

    assert asyncio.run(crowd()) < 2 * bodies  # those of one moment
    assert all(counter.stats(f"api/{key}")["max_inside"] <= LIMIT for key in range(keys))
    Semaphore("api", LIMIT, key="0", url=url).acquire(timeout=SOON)


def releases_left(store: Store) -> int:
    """Return how many releases of this process are to be made."""
    releaser, queue = held_permits_in(store)._releaser, loop_calls_of(store)._queue
    with queue._taking:
        queue._sort()
        queued = len(queue._releases)
    return queued + len(releaser._releases) + len(releaser._jobs)


def of_valkey(server: ValkeyServer) -> int:
    with server.client() as client:
        killed: int = client.execute_command("CLIENT", "KILL", "SKIPME", "yes")
        return killed


def of_postgres(server: PostgresServer) -> int:
    """Kill the connections of the library."""
    with server.client() as client:
        found = client.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'celery_semaphore'"
        )
        return found.rowcount


# The first call of a connection to PostgreSQL takes 100 ms: it must not be killed again by then.
@pytest.mark.parametrize(
    ("server", "kill", "pause", "bodies"),
    [
        ("valkey", of_valkey, 0.1, BODIES),
        ("postgres", of_postgres, 0.25, BODIES // 3),
        *also(("postgres", of_postgres, 0.25, BODIES)),
    ],
)
def test_connections_that_are_killed(
    request: pytest.FixtureRequest,
    counter: Counter,
    server: str,
    kill: Callable[[Any], int],
    pause: float,
    *,
    bodies: int,
) -> None:
    """Batches are lost in the middle; none fails, and none is left."""
    running = request.getfixturevalue(server)
    api = AsyncSemaphore("api", LIMIT, url=running.url, timeout=60)
    over, kills = threading.Event(), list[int]()

    async def body() -> None:
        async with api:
            with counter.inside("api", "body"):
                await asyncio.sleep(0.005)

    async def main() -> None:
        await asyncio.gather(*[body() for _ in range(bodies)])

    def kill_again() -> None:
        while not over.wait(pause):
            kills.append(kill(running))

    killer = threading.Thread(target=kill_again)
    killer.start()
    try:
        run_in("asyncio")(main())
    finally:
        over.set()
        killer.join()
    soon_nothing_is_left(api._store)
    stats = counter.stats("api")
    assert sum(kills) > 1
    assert stats["completed"] == bodies
    # Bodies of 5 ms between kills need not all meet.
    assert 1 < stats["max_inside"] <= LIMIT


def test_a_server_that_hangs_delays_no_cancellation(start_valkey: StartServer) -> None:
    server = start_valkey()
    api = AsyncSemaphore("api", LIMIT, url=server.url)

    async def main() -> float:
        await api.available()
        server.pause()
        tasks = [asyncio.create_task(api.acquire()) for _ in range(50)]
        await asyncio.sleep(0.3)
        since = time.monotonic()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        took = time.monotonic() - since
        server.resume()
        assert all(task.cancelled() for task in tasks)
        return took

    assert run_in("asyncio")(main()) < 1.0
    soon_nothing_is_left(api._store, 10)


def test_a_blocked_loop_keeps_its_permit(open_store: OpenStore) -> None:
    """By sleep, and by Python code: threads renew it."""
    api = AsyncSemaphore("api", 1, store=open_store(lease=1.0))
    other = Semaphore("api", 1, store=open_store(lease=1.0))
    over, got_in, attempts = threading.Event(), list[str](), list[float]()

    def attempt() -> None:
        while not over.wait(0.05):
            attempts.append(time.monotonic())
            with suppress(SemaphoreTimeout):
                got_in.append(other.acquire(timeout=0).holder)

    async def main() -> None:
        async with api:
            attempting = threading.Thread(target=attempt)
            attempting.start()
            time.sleep(2.5)  # noqa: ASYNC251 - that is what it must survive
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                pass
            over.set()
            attempting.join()
            assert [*await api.holders()]

    run_in("asyncio")(main())
    assert got_in == []
    assert len(attempts) > 5


def test_an_answer_that_is_read_late(open_store: OpenStore) -> None:
    """The permit that is returned is held in the store: the old one, or another if that was taken meanwhile."""
    store, other = open_store(lease=1.0), open_store(lease=1.0)
    api, claims = AsyncSemaphore("api", 1, store=store), [Claim("api", None, 1)]

    async def acquired() -> str:
        task = asyncio.create_task(api.acquire())
        await asyncio.sleep(0)  # it is queued
        time.sleep(1.5)  # noqa: ASYNC251
        permit = await task
        (held,) = other.snapshot("api").holders
        assert held.holder == permit.holder
        await api.release(permit)
        return permit.holder

    run_in("asyncio")(acquired())
    assert isinstance(other.acquire(claims, "next"), Permit), "it was released"
    other.release("next", claims)
    soon_nothing_is_left(store)


def test_one_object_in_four_loops(open_store: OpenStore, counter: Counter, run: Run[Any]) -> None:
    store = open_store()
    api, entered = AsyncSemaphore("api", 3, store=store, timeout=60), list[None]()

    async def body() -> None:
        async with api:
            with counter.inside("api", "body"):
                entered.append(None)
                await until(lambda: len(entered) >= 3)  # else a busy machine never fills the limit
                await asyncio.sleep(0.002)

    async def main() -> None:
        await asyncio.gather(*[body() for _ in range(25)])

    loops = [threading.Thread(target=run, args=(main(),)) for _ in range(4)]
    for each in loops:
        each.start()
    for each in loops:
        each.join(60)
    stats = counter.stats("api")
    assert (stats["completed"], stats["max_inside"]) == (100, 3)
    soon_nothing_is_left(store)


def test_loops_one_after_the_other(valkey: ValkeyServer) -> None:
    """As in tasks that call ``asyncio.run``."""
    api, before = AsyncSemaphore("api", 1, url=valkey.url, timeout=SOON), threads_of_ours()

    async def main() -> None:
        async with api:
            pass

    for _ in range(200):
        asyncio.run(main())
    soon_nothing_is_left(api._store)
    assert len(threads_of_ours() - before) <= 4


@pytest.mark.parametrize("they", ["ask", "wait"])
def test_a_loop_that_is_closed_while_it_acquires(valkey: ValkeyServer, they: str) -> None:
    """The collector ends its coroutines: they leave the line, and what they got is released."""
    api, here = AsyncSemaphore("api", 1, url=valkey.url), Semaphore("api", 1, url=valkey.url)
    permit, loop = here.acquire(), asyncio.new_event_loop()

    async def main() -> None:
        for _ in range(20):
            asyncio.create_task(api.acquire())  # noqa: RUF006 - its loop keeps none of them
        await asyncio.sleep(0)
        if they == "wait":
            await until(lambda: here._seen().waiting == 20)

    loop.run_until_complete(main())
    loop.close()
    calls = loop_calls_of(api._store)
    wait_until(lambda: not calls._left, SOON, "their calls have ended, and keep them no more")
    gc.collect()
    here.release(permit)
    soon_nothing_is_left(api._store)


def test_coroutines_and_threads_in_one_line(valkey: ValkeyServer) -> None:
    """They are admitted in the order in which they came."""
    there = AsyncSemaphore("api", 1, url=valkey.url, timeout=60)
    here = Semaphore("api", 1, url=valkey.url, timeout=60)
    came = list[int]()

    def by_thread(n: int) -> None:
        with here:
            came.append(n)

    async def by_loop(n: int) -> None:
        async with there:
            came.append(n)

    async def main(executor: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        async with there:
            some = list[asyncio.Future[None]]()
            for n in range(20):
                some.append(
                    loop.run_in_executor(executor, partial(by_thread, n))
                    if n % 2
                    else asyncio.ensure_future(by_loop(n))
                )
                await until(lambda n=n: here._seen().waiting == n + 1)  # type: ignore[misc]
        await asyncio.gather(*some)

    with ThreadPoolExecutor(10) as executor:
        run_in("asyncio")(main(executor))
    assert came == list(range(20))


def test_no_thread_for_each_that_waits(valkey: ValkeyServer) -> None:
    api = AsyncSemaphore("api", 1, url=valkey.url)
    before = threads_of_ours()

    async def main() -> None:
        async with api:
            tasks = [asyncio.create_task(api.acquire()) for _ in range(2000)]
            await until(lambda: api._seen().waiting == 2000)
            assert len(threads_of_ours() - before) <= 4
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    run_in("asyncio")(main())
    soon_nothing_is_left(api._store, 60)
