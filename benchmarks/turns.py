"""Measure how well many workers share few permits, with real sessions and simulated tasks.

A machine cannot run a hundred workers. Here each worker is the session that its main process would have, and its tasks
are times on one clock. All sessions are in one process, and ask one Valkey.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from queue import SimpleQueue
from typing import Any, cast

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.worker.keeping.kept_message import KeptMessage
from celery_semaphore.worker.keeping.session import Session
from tests.support.servers import ValkeyServer

from .figure import Figure

LIMIT = 5
WAITS = 200  # waits in line of all sessions together; each has at least two
SETTLE_S, WATCHED_S = 3.0, 10.0
# Sessions, seconds that a permit is held, and the least share of the permits' time that must be used.
PLAYED = ((16, 0.1, 0.9), (100, 0.1, 0.7), (16, 0.02, 0.7))
CLAIMS = (Claim("work", None, LIMIT),)


def measure() -> list[Figure]:
    return [_shared(*each) for each in PLAYED]


def _shared(sessions: int, seconds: float, bound: float) -> Figure:
    with ValkeyServer() as server:
        cluster = Cluster(server.url, sessions, seconds)
        time.sleep(SETTLE_S)
        used, ended, start = cluster.used, cluster.ended, time.monotonic()
        time.sleep(WATCHED_S)
        watched = time.monotonic() - start
        share = (cluster.used - used) / watched / LIMIT
        a_second = round((cluster.ended - ended) / watched)
        cluster.end()
    label = (
        f"{sessions} sessions, permits held for {seconds * 1000:g} ms: share of the permits used"
    )
    return Figure(label, share, bound, at_least=True, unit="", detail={"tasks a second": a_second})


class StandIn:
    """Stands for a kept message, as far as its session looks at it."""

    def __init__(self, wait: HeldWait) -> None:
        self.wait = wait


class Cluster:
    """Runs many sessions. A task that ends waits again, at the end of the line."""

    def __init__(self, url: str, sessions: int, seconds: float) -> None:
        self.used = 0.0  # seconds that permits were held
        self.ended = 0  # tasks
        self._seconds = seconds
        self._store = store_from_url(url)
        self._numbers = count()
        self._running: list[tuple[float, int, Session, Permit, float]] = []
        self._changed = threading.Condition()
        self._calls = SimpleQueue[Any]()
        self._over = False
        self._sessions = [self._session() for _ in range(sessions)]
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._loop, self._clock)
        ]
        for thread in self._threads:
            thread.start()
        for session in self._sessions:
            for _ in range(max(2, WAITS // sessions)):
                self._wait(session)

    def _session(self) -> Session:
        def visit() -> None:
            self._visit(session)

        session = Session(self._store, self._calls.put, visit, lambda _: None)
        self._store.ask(session.name)
        session.start()
        return session

    def _loop(self) -> None:
        """Run the event loop of all sessions."""
        while not self._over:
            self._calls.get()()

    def _wait(self, session: Session) -> None:
        made_at = time.monotonic()
        answer = self._ask(session, None)
        if isinstance(answer, Refusal) and answer.ticket:
            wait = HeldWait(answer.ticket, CLAIMS)
            turn = time.monotonic() + answer.retry_after
            session.add(cast("KeptMessage", StandIn(wait)), wait, turn, made_at)

    def _visit(self, session: Session) -> None:
        """Begin the waits that were granted."""
        self._begin(session, list(session.granted()))

    def _begin_all(self, session: Session, nonces: set[str]) -> None:
        self._begin(session, session.messages(nonces))

    def _begin(self, session: Session, waiting: Iterable[KeptMessage]) -> None:
        for kept in waiting:
            session.discard(kept)
            assert kept.wait
            self._ask(session, kept.wait.ticket)

    def _ask(self, session: Session, ticket: Ticket | None) -> Permit | Refusal:
        wait = Wait(Kind.REQUEUE, ticket=ticket, session=session.name)
        answer = self._store.acquire(CLAIMS, f"holder-{next(self._numbers)}", wait)
        if isinstance(answer, Permit):
            now = time.monotonic()
            ends = now + self._seconds * random.uniform(0.8, 1.2)
            with self._changed:
                heappush(self._running, (ends, next(self._numbers), session, answer, now))
                self._changed.notify()
        return answer

    def _clock(self) -> None:
        """End the tasks that have run for their time."""
        while not self._over:
            with self._changed:
                now = time.monotonic()
                if not self._running or self._running[0][0] > now:
                    self._changed.wait(self._running[0][0] - now if self._running else 0.1)
                    continue
                _, _, session, permit, since = heappop(self._running)
            self.used += time.monotonic() - since
            self.ended += 1
            own = session.own(self._store.release(permit.holder, permit.claims).granted)
            self._calls.put(partial(self._begin_all, session, own))
            self._calls.put(lambda session=session: self._wait(session))

    def end(self) -> None:
        self._over = True
        self._calls.put(lambda: None)
        for session in self._sessions:
            session.end()
        for session in self._sessions:
            session.join(2.0)
        for thread in self._threads:
            thread.join()
        self._store.close()
