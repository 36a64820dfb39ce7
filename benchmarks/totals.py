"""Measure what counting for metrics costs the server, and the acquires beside it."""

from __future__ import annotations

import random
import re
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import redis

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.store import TOTALLED
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis.keys import Keys
from celery_semaphore.stores.redis.totals import WITHOUT_WAITS
from tests.support.postgres import EmbeddedPostgresServer
from tests.support.servers import ValkeyServer

from .figure import Figure, interleaved, ratio

KEYS = 10_000
LONG_LEASE = StoreOptions(lease=600)  # nothing ends while it is measured
TURN_S = 15.0  # in which an exporter counts all keys once
ROUNDS = 5
BLOCK_S = 4.0  # of acquires beside the exporter, or without
PACE_S = (
    0.002  # between two acquires, on average: tasks ask when they like, not when the server is free
)
TURNS = {
    (10_000, 500): 1.2,
    (50_000, 500): None,
    (50_000, 50): None,
}  # keys, and resources in one call: bound
MOST_US, MOST_S = 5.0, 0.15  # of the server: for one key, and for 10,000

# The three commands alone that a key without waits needs: the floor of its time.
FLOOR = """
for k = 1, #KEYS, 4 do
    redis.call("EXISTS", KEYS[k + 2], KEYS[k + 3])
    redis.call("ZRANGEBYSCORE", KEYS[k], ARGV[1], "+inf")
    redis.call("HGET", KEYS[k + 1], "limit")
end
"""

HELD = f"""
INSERT INTO celery_semaphore.permit
    (resource, row_no, holder, granted, weight, token, last, since, ends, epoch, restored)
SELECT 'api/' || n, r, '0b6ff8a2-41f2-4d4f-a2f1-2a54c0f9c0a1:' || n || '-' || r, false, 1, 1, 1, 1, 9000000000000000, 1, false
FROM generate_series(1, {KEYS}) AS n, generate_series(0, 1) AS r
"""  # noqa: S608 - a number
USED = f"""
INSERT INTO celery_semaphore.resource (name, declared, reap_at)
SELECT 'api/' || n, 10, 9000000000000000 FROM generate_series(1, {KEYS}) AS n
"""  # noqa: S608 - a number
COUNTED = """
EXPLAIN (ANALYZE, TIMING OFF) SELECT * FROM celery_semaphore.v1_totals('(,30000000,30000000,,2000)', %s)
"""


def measure() -> list[Figure]:
    with ValkeyServer() as server, server.client() as client:
        store = store_from_url(server.url, LONG_LEASE)
        store.check()
        names = _held(store)
        beside = [_beside(server.url, store, names, *turn) for turn in TURNS]
        figures = _server_time(client, store, names)
    return [*figures, *beside, _postgresql()]


def _held(store: Any) -> list[str]:
    """Let each key have two holders; return the names of the resources."""
    claims = [Claim("api", f"key-{n}", 10) for n in range(KEYS)]
    for claim in claims:
        for n in range(2):
            store.acquire([claim], f"{uuid.uuid4()}:{n:016x}")
    return [claim.resource for claim in claims]


def _server_time(client: redis.Redis, store: Any, names: Sequence[str]) -> list[Figure]:
    """Compare the time of the server with that of snapshots; and let three wait at each key."""
    blocks: dict[str, Callable[[], float]] = {
        "totals": partial(_script_us, client, lambda: _count(store, names)),
        "snapshots": partial(_script_us, client, lambda: list(store.snapshots(names))),
        "floor": partial(_script_us, client, _floor(client, names)),
        "50 in a call": partial(_script_us, client, lambda: _count(store, names, 50)),
        "1 in a call": partial(_script_us, client, lambda: _count(store, names, 1)),
    }
    found = interleaved(ROUNDS, blocks)
    each = {name: statistics.median(times) for name, times in found.items()}
    _let_wait(store, names)
    waited = statistics.median(blocks["totals"]() for _ in range(ROUNDS))
    detail = {
        f"{name} us": round(each[name], 1) for name in ("floor", "50 in a call", "1 in a call")
    }
    detail |= {"with a grant and three waits us": round(waited, 1)}
    spread = (min(found["totals"]), max(found["totals"]))
    key = Figure(
        "server time of one key", each["totals"], MOST_US, unit="us", spread=spread, detail=detail
    )
    whole = Figure(f"server time of {KEYS:,} keys", each["totals"] * KEYS / 1e6, MOST_S, unit="s")
    beside = ratio("server time of one key, to its snapshot", found["totals"], found["snapshots"])
    return [key, whole, beside]


def _floor(client: redis.Redis, names: Sequence[str]) -> Callable[[], None]:
    """Return a function that asks the three commands of all keys, as many in a call as the store does."""
    digest, of = client.script_load(FLOOR), Keys(StoreOptions.prefix)
    keys = [of.part(name, part) for name in names for part in WITHOUT_WAITS]
    most = TOTALLED * len(WITHOUT_WAITS)
    calls = [keys[start : start + most] for start in range(0, len(keys), most)]

    def ask() -> None:
        for call in calls:
            client.evalsha(digest, len(call), *call, f"({time.time() * 1e6:.0f}")

    return ask


def _let_wait(store: Any, names: Sequence[str]) -> None:
    """Let two be parked and one kept at each key, and grant a permit to one."""
    store.ask("worker")
    for n, name in enumerate(names):
        claim = [Claim("api", f"key-{n}", 3)]
        store.acquire(claim, f"third-{n}")
        for kind, session in (
            (Kind.PARK, ""),
            (Kind.PARK, ""),
            (Kind.REQUEUE, "worker"),
            (Kind.REQUEUE, ""),
        ):
            answer = store.acquire(claim, f"{uuid.uuid4()}", Wait(kind, session=session))
            if kind is Kind.PARK:
                store.attach(answer.ticket, claim, name.encode())
        store.release(f"third-{n}", claim)


def _script_us(client: redis.Redis, call: Callable[[], object]) -> float:
    """Return the microseconds of the server's scripts for one key."""
    client.config_resetstat()
    call()
    return float(client.info("commandstats")["cmdstat_evalsha"]["usec"]) / KEYS


def _count(store: Any, names: Sequence[str], batch: int = TOTALLED) -> None:
    for start in range(0, len(names), batch):
        store.totals(names[start : start + batch])


def _beside(url: str, store: Any, names: Sequence[str], keys: int, batch: int) -> Figure:
    """Compare the 99th percentile of an acquire while an exporter counts, evenly over its turn."""
    pause = TURN_S * batch / keys
    blocks: dict[str, Callable[[], float]] = {
        "beside": lambda: _p99_beside(url, store, names, batch, pause),
        "alone": lambda: _p99(store),
    }
    found = interleaved(ROUNDS, blocks, warm=0)
    detail = {f"{name} us": round(1e6 * statistics.median(times)) for name, times in found.items()}
    label = f"99th percentile of acquire beside {keys:,} keys in {TURN_S:g} s, {batch} in a call, to alone"
    return ratio(label, found["beside"], found["alone"], bound=TURNS[keys, batch], detail=detail)


def _p99_beside(url: str, store: Any, names: Sequence[str], batch: int, pause: float) -> float:
    with _exporter(url, names, batch, pause):
        return _p99(store)


def _p99(store: Any) -> float:
    claim, times, end = [Claim("task", None, 10)], list[float](), time.monotonic() + BLOCK_S
    while time.monotonic() < end:
        time.sleep(random.uniform(0, 2 * PACE_S))
        holder = f"{uuid.uuid4()}"
        start = time.perf_counter()
        store.acquire(claim, holder)
        times.append(time.perf_counter() - start)
        store.release(holder, claim)
    return statistics.quantiles(times, n=100)[-1]


@contextmanager
def _exporter(url: str, names: Sequence[str], batch: int, pause: float) -> Iterator[None]:
    """Count in another process, as an exporter does."""
    process = get_context("spawn").Process(
        target=_export, args=(url, list(names), batch, pause), daemon=True
    )
    process.start()
    time.sleep(1.0)  # until it has begun
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _export(url: str, names: Sequence[str], batch: int, pause: float) -> None:
    store = store_from_url(url, LONG_LEASE)
    while True:
        for start in range(0, len(names), batch):
            begun = time.monotonic()
            store.totals(names[start : start + batch])
            time.sleep(max(0.0, pause - (time.monotonic() - begun)))


def _postgresql() -> Figure:
    """Measure as the server does, without the way to it."""
    with EmbeddedPostgresServer() as server:
        server.install()
        server.run(HELD, USED, "VACUUM ANALYZE")
        with server.client() as client:
            times = [_explained(client) for _ in range(1 + ROUNDS)][1:]
    label = f"PostgreSQL: server time of {KEYS:,} keys"
    return Figure(
        label, statistics.median(times), MOST_S, unit="s", spread=(min(times), max(times))
    )


def _explained(client: Any) -> float:
    """Return the seconds of all batches."""
    whole = 0.0
    for start in range(1, KEYS, TOTALLED):
        names = [f"api/{n}" for n in range(start, start + TOTALLED)]
        plan = client.execute(COUNTED, [names]).fetchall()
        whole += float(re.findall(r"Execution Time: ([\d.]+) ms", str(plan))[0]) / 1000
    return whole
