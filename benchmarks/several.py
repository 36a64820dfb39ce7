"""Measure a release beside waiting tasks with two limits: few or many of them, alone or before those with one limit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from celery_semaphore.core.permit import Claim, Kind, Wait
from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.postgres import EmbeddedPostgresServer
from tests.support.servers import ValkeyServer

from .figure import Figure

Claims = tuple[Claim, ...]
SESSION = "worker"
ONE, OTHER = Claim("one", None, 1), Claim("other", None, 1)
FEW, MANY, SINGLE = 10, 3_000, 40
HOLDING = Wait(Kind.REQUEUE, session=SESSION)


def measure() -> list[Figure]:
    return [
        figure
        for name, server in (("Valkey", ValkeyServer), ("PostgreSQL", EmbeddedPostgresServer))
        for figure in _on(name, server)
    ]


def _on(name: str, kind: Any) -> Iterator[Figure]:
    for single in (0, SINGLE):
        few, many = (_milliseconds(kind, waiting, single) for waiting in (FEW, MANY))
        behind = f", {single} with one limit behind them" if single else ""
        yield Figure(
            f"release on {name} beside {MANY:,} tasks with two limits to {FEW}{behind}",
            statistics.median(many) / statistics.median(few),
            detail={
                f"ms, {FEW}: median, most": (round(statistics.median(few), 2), round(max(few), 2)),
                f"ms, {MANY:,}: median, most": (
                    round(statistics.median(many), 2),
                    round(max(many), 2),
                ),
            },
        )


@contextmanager
def _store(kind: Any) -> Iterator[Store]:
    with kind() as server:
        if isinstance(server, EmbeddedPostgresServer):
            server.install()
        with closing(store_from_url(server.url, StoreOptions(timeout=30.0, lease=3600.0))) as store:
            yield store


def _milliseconds(kind: Any, waiting: int, single: int) -> list[float]:
    """Return how long each of some releases takes; what is granted begins at once."""
    with _store(kind) as store:
        store.ask(SESSION)
        running: list[tuple[str, Claims]] = [("a", (ONE,)), ("x", (OTHER,))]
        store.acquire(running[0][1], "a")
        both: dict[str, Claims] = {f"b{n}": (ONE, OTHER) for n in range(waiting)}
        tickets = {name: _ticket(store, name, claims) for name, claims in both.items()}
        store.acquire(running[1][1], "x")
        alone: dict[str, Claims] = {f"s{n}": ((ONE, OTHER)[n % 2],) for n in range(single)}
        tickets |= {name: _ticket(store, name, claims) for name, claims in alone.items()}
        wanted = both | alone
        times = list[float]()
        for _ in range(20):
            holder, claims = running.pop(0)
            began = time.perf_counter()
            granted = store.release(holder, claims).granted
            times.append(1000 * (time.perf_counter() - began))
            for nonce in sorted(granted):
                wait = Wait(Kind.REQUEUE, ticket=tickets[nonce], session=SESSION)
                store.acquire(wanted[nonce], f"{nonce}:2", wait)
                running.append((f"{nonce}:2", wanted[nonce]))
            if not running:
                break
        return times


def _ticket(store: Store, holder: str, claims: Claims) -> Any:
    answer: Any = store.acquire(claims, holder, HOLDING)
    return answer.ticket
