"""Measure AsyncSemaphore against redis.asyncio's SET NX + DEL, and what its crowds make of a limit."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import redis.asyncio

from celery_semaphore import AsyncSemaphore
from celery_semaphore.core.asker import Asker
from tests.support.servers import ValkeyServer

from .figure import Figure

PAIRS, ROUNDS = 1_000, 9
CALLERS = {1: 1 / 2.5, 20: 1.0, 200: 1.0}  # and the least ratio of their pairs
CROWDS = {(500, 20, 0.02): 0.6, (2_000, 20, 0.02): 0.6, (200, 5, 0.1): 0.88}  # and the least use
TOLD = 1.3  # the least ratio of a crowd's use with ``tell`` to that without


def measure() -> list[Figure]:
    with ValkeyServer() as server:
        figures = [_pairs(server.url, callers, least) for callers, least in CALLERS.items()]
        figures += [_crowd(server.url, *crowd, least) for crowd, least in CROWDS.items()]
        return [*figures, _told(server.url)]


def _pairs(url: str, callers: int, least: float) -> Figure:
    api = AsyncSemaphore("pairs", callers, url=url)
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
    api = AsyncSemaphore("crowd", limit, url=url)

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
    tell, found = Asker.tell, dict[str, float]()
    for name, instead in (("without", lambda *_: None), ("with", tell)):
        Asker.tell = instead  # type: ignore[method-assign]
        try:
            found[name] = statistics.median(_use(url, 100, 5, 0.02) for _ in range(3))
        finally:
            Asker.tell = tell  # type: ignore[method-assign]
    return Figure(
        "use of limit 5 by 100 coroutines of 20 ms, told by releases, to asking only",
        found["with"] / found["without"],
        TOLD,
        at_least=True,
        detail={name: round(use, 2) for name, use in found.items()},
    )
