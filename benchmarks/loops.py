"""Measure AsyncSemaphore against redis.asyncio's SET NX + DEL, and what its crowds make of a limit."""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import redis.asyncio

from celery_semaphore import AsyncSemaphore, Semaphore
from celery_semaphore.core.asker import Asker
from tests.support.servers import ValkeyServer

from .figure import Figure

PAIRS, ROUNDS = 1_000, 9
CALLERS = {1: 1 / 2.5, 20: 1.0, 200: 1.0}  # and the least ratio of their pairs
CROWDS = {(500, 20, 0.02): 0.6, (2_000, 20, 0.02): 0.6, (200, 5, 0.1): 0.88}  # and the least use
IN_LINE = 10_000  # coroutines behind one holder
LINE_S, LINE_MIB, LINE_CPU = (
    5.0,
    80.0,
    12.0,
)  # until all are in line; memory; percent of a processor while none moves
TOLD = 1.3  # the least ratio of threads' use with ``tell`` to that without


def measure() -> list[Figure]:
    with ValkeyServer() as server:
        figures = [_pairs(server.url, callers, least) for callers, least in CALLERS.items()]
        figures += [_crowd(server.url, *crowd, least) for crowd, least in CROWDS.items()]
        figures += [_told(server.url), *asyncio.run(_line(server.url))]
        return [*figures, asyncio.run(_busy_loop(server.url))]


def _pairs(url: str, callers: int, least: float) -> Figure:
    # A name for each, as the smallest limit that was declared lately is in force.
    api = AsyncSemaphore(f"pairs of {callers}", callers, url=url)
    ratios, ours, theirs = list[float](), list[float](), list[float]()

    async def pair() -> None:
        await api.release(await api.acquire())

    async def main() -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=10)
        async with redis.asyncio.Redis.from_pool(pool) as client:

            async def lock() -> None:
                name = f"lock {uuid.uuid4()}"
                await client.set(name, "x", nx=True, px=30_000)
                await client.delete(name)

            for _ in range(ROUNDS):
                theirs.append(await _rate(lock, callers))
                ours.append(await _rate(pair, callers))
                ratios.append(ours[-1] / theirs[-1])

    asyncio.run(main())
    return Figure(
        f"pairs of {callers} callers, to redis.asyncio's SET NX + DEL",
        statistics.median(ratios),
        least,
        at_least=True,
        detail={"pairs/s": round(max(ours)), "SET NX + DEL/s": round(max(theirs))},
    )


async def _rate(call: Callable[[], Coroutine[Any, Any, None]], callers: int) -> float:
    async def some() -> None:
        for _ in range(PAIRS // callers):
            await call()

    since = time.perf_counter()
    await asyncio.gather(*[some() for _ in range(callers)])
    return PAIRS / (time.perf_counter() - since)


def _crowd(url: str, bodies: int, limit: int, each: float, least: float) -> Figure:
    return Figure(
        f"use of limit {limit} by {bodies:,} coroutines of {1000 * each:.0f} ms",
        _use(url, bodies, limit, each),
        least,
        at_least=True,
    )


def _use(url: str, bodies: int, limit: int, each: float) -> float:
    api = AsyncSemaphore(f"crowd of {bodies} at {limit}", limit, url=url)

    async def body() -> None:
        async with api:
            await asyncio.sleep(each)

    async def main() -> float:
        await api.available()
        since = time.perf_counter()
        await asyncio.gather(*[body() for _ in range(bodies)])
        return bodies / limit * each / (time.perf_counter() - since)

    return asyncio.run(main())


def _told(url: str) -> Figure:
    tell, found = Asker.tell, dict[str, list[float]]()
    try:
        for _ in range(3):
            for name, instead in (("without", lambda *_: None), ("with", tell)):
                Asker.tell = instead  # type: ignore[method-assign]
                found.setdefault(name, []).append(_use_of_threads(url))
    finally:
        Asker.tell = tell  # type: ignore[method-assign]
    without, told = map(statistics.median, found.values())
    return Figure(
        "use of limit 3 by 40 threads, 5 ms each, told by releases, to asking only",
        told / without,
        TOLD,
        at_least=True,
        detail={"without": round(without, 2), "with": round(told, 2)},
    )


def _use_of_threads(url: str, bodies: int = 10) -> float:
    api = Semaphore("threads", 3, url=url)
    api.available()

    def run() -> None:
        for _ in range(bodies):
            with api:
                time.sleep(0.005)

    threads = [threading.Thread(target=run) for _ in range(40)]
    since = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(threads) * bodies / 3 * 0.005 / (time.perf_counter() - since)


async def _line(url: str) -> list[Figure]:
    api = AsyncSemaphore("line", 1, url=url)
    permit = await api.acquire()
    memory, since = _mib(), time.perf_counter()
    tasks = [asyncio.create_task(api.acquire()) for _ in range(IN_LINE)]
    async with redis.asyncio.Redis.from_url(url) as client:
        # The server sends no event.
        while await client.zcard("{celery-semaphore}:line:line") < IN_LINE:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    seconds, memory = time.perf_counter() - since, _mib() - memory
    await asyncio.sleep(3)
    since, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(10)
    percent = 100 * (time.process_time() - used) / (time.perf_counter() - since)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await api.release(permit)
    what = f"{IN_LINE:,} coroutines behind one holder"
    return [
        Figure(f"{what}: all are in line after", seconds, LINE_S, unit="s"),
        Figure(f"{what}: memory", memory, LINE_MIB, unit="MiB"),
        Figure(f"{what}: a processor, while nothing moves", percent, LINE_CPU, unit="%"),
    ]


def _mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _busy_loop(url: str) -> Figure:
    """Return the 99th percentile of a pair where the loop computes 80 % of the time, in slices of 5 ms."""
    api = AsyncSemaphore("busy", 5, url=url)
    async with redis.asyncio.Redis.from_url(url) as client:

        async def lock() -> None:
            await client.set("busy lock", "x", nx=True, px=30_000)
            await client.delete("busy lock")

        async def pair() -> None:
            await api.release(await api.acquire())

        computing = asyncio.create_task(_compute())
        theirs, ours = await _slow(lock), await _slow(pair)
        computing.cancel()
    what = "99th percentile of a pair in a loop that computes 80 %"
    detail = {"SET NX + DEL, ms": round(1000 * theirs, 1)}
    return Figure(what, 1000 * ours, 2000 * theirs + 10, unit="ms", detail=detail)


async def _compute() -> None:
    while True:
        until = time.perf_counter() + 0.005
        while time.perf_counter() < until:
            pass
        await asyncio.sleep(0.005 / 4)


async def _slow(call: Callable[[], Coroutine[Any, Any, None]]) -> float:
    took = list[float]()
    for _ in range(400):
        since = time.perf_counter()
        await call()
        took.append(time.perf_counter() - since)
    return sorted(took)[-4]
