"""Measure what many parked tasks cost workers, broker and store while no permit is released; then what a release costs.

Workers park the first 10,000. The rest is put in line by the same calls of the store that a worker makes, with a copy
of one of these messages: the workers see all of them, and it takes about a minute.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.grant import Grant
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait

from .backlog import PROCESSES, WORKERS
from .crowded import memory
from .deployment import QUEUE
from .figure import Figure, interleaved, ratio
from .site import Site, site

BY_WORKERS, MANY, FEW = 10_000, 100_000, 1_000
QUIET = 15.0  # seconds without a release
RELEASES, ROUNDS = 200, 5
WORK = Claim("work", None, 5)
SMALL = Claim("small", None, 5)  # another semaphore, with a short line


def measure() -> list[Figure]:
    with site() as made:
        for semaphore in ("work", "small"):
            made.store.set_limit(0, semaphore)
        made.start(PROCESSES, WORKERS)
        idle = _memory(made)
        made.stage(("park", [n, 0.1]) for n in range(BY_WORKERS))
        made.release()
        made.wait(lambda: _parked(made) >= BY_WORKERS, 300, "the parked", interval=0.5)
        after = _memory(made)
        quiet = _calls_per_second(made)
        payload = _a_message(made)
        before = made.client.info("memory")["used_memory"]
        _park(made.store, WORK, MANY - BY_WORKERS, payload)
        taken = made.client.info("memory")["used_memory"] - before
        full = _memory(made)
        detail = {f"MB {name}": round(size / 1e6, 1) for name, size in _sizes(idle, after, full)}
        messages = made.client.llen(QUEUE) + made.client.hlen("unacked")
        for worker in made.workers:
            worker.kill_group()
        _park(made.store, SMALL, FEW, payload)
        return [
            Figure(
                f"workers' memory with {MANY:,} parked to {BY_WORKERS:,}",
                full / after,
                1.05,
                detail=detail,
            ),
            Figure(f"messages with the broker, {MANY:,} parked", messages, 0, unit=""),
            Figure(
                "bytes of the store per parked task",
                taken / (MANY - BY_WORKERS),
                unit="",
                detail={"bytes of the message itself": len(payload)},
            ),
            Figure(f"calls of the store per second, {BY_WORKERS:,} parked", quiet, 4.0, unit=""),
            _releasing(made.store),
        ]


def _sizes(idle: float, after: float, full: float) -> Iterator[tuple[str, float]]:
    yield "at the start", idle
    yield f"with {BY_WORKERS:,} parked", after
    yield f"with {MANY:,}", full


def _memory(made: Site) -> float:
    return sum(memory(worker) for worker in made.workers)


def _parked(made: Site) -> int:
    return int(made.client.hlen("{celery-semaphore}:work:payloads"))


def _calls_per_second(made: Site) -> float:
    def calls() -> int:
        return int(made.client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))

    before, start = calls(), time.monotonic()
    time.sleep(QUIET)
    return (calls() - before) / (time.monotonic() - start)


def _a_message(made: Site) -> bytes:
    _, found = made.client.hscan("{celery-semaphore}:work:payloads", count=1)
    assert isinstance(found, dict)
    message = next(iter(found.values()))
    assert isinstance(message, bytes)
    return message


def _park(store: Store, claim: Claim, count: int, payload: bytes) -> None:
    for n in range(count):
        refusal = store.acquire([claim], f"{n}:{time.monotonic_ns()}", Wait(Kind.PARK))
        assert isinstance(refusal, Refusal)
        assert refusal.ticket is not None
        store.attach(refusal.ticket, [claim], payload, name=f"{claim.semaphore}-{n}")


def _releasing(store: Store) -> Figure:
    """Time releases, each of which hands its permit on to the next in line."""
    for semaphore in ("work", "small"):
        store.set_limit(5, semaphore)
    found = interleaved(
        ROUNDS,
        {name: partial(_released, store, name) for name in ("work", "small")},
        warm=0,
    )
    us = {
        f"us, {count:,} parked": round(1e6 * statistics.median(found[name]) / RELEASES)
        for name, count in (("work", MANY), ("small", FEW))
    }
    label = f"a release that hands on, {MANY:,} parked to {FEW:,}"
    return ratio(label, found["work"], found["small"], bound=1.5, detail=us)


def _released(store: Store, semaphore: str) -> float:
    spent = 0.0
    for grant in islice(_granted(store, semaphore), RELEASES // 2):
        start = time.perf_counter()
        store.release(grant.ticket, grant.claims)
        spent += time.perf_counter() - start
    return 2 * spent


def _granted(store: Store, semaphore: str) -> Iterator[Grant]:
    while grants := store.take(frozenset({semaphore})):
        yield from grants
