"""Processes that hold permits as programs do: threads over one store, with a real keeper for each process."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TextIO

from celery_semaphore.core.announcer import Announcer
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.events import Event, PermitLostEvent
from celery_semaphore.core.lease import LOST_AFTER, LeaseKeeper
from celery_semaphore.core.permit import Permit, Renewal, Renewals
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.counter import Counter
from tests.support.lines import whole_lines

FORK = get_context("fork")  # each process opens its own store
LIMITS = {"one": 1, "two": 2, "four": 4}
AGAIN = Wait(Kind.REQUEUE, shortest=0.02, longest=0.2)
THREADS = 4
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def claims_on(*names: str) -> list[Claim]:
    return [Claim(name, None, LIMITS[name]) for name in names]


WANTED = [*([name] for name in LIMITS), ["one", "two"], ["two", "four"]]


class Watched:
    """A store that notes what the living are told: one that is inside now has not been released."""

    def __init__(self, store: Store, inside: dict[str, Inside], notes: TextIO) -> None:
        self._store, self._inside, self._notes = store, inside, notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        asked = time.monotonic()
        renewals = self._store.renew(permits)
        for holder, renewal in renewals.items():
            if inside := self._inside.get(holder):
                unrenewed = asked - inside.renewed
                in_time = unrenewed < LOST_AFTER * self._store.lease
                if renewal is not Renewal.LOST:
                    inside.renewed = asked
                    self._notes.write(f"{renewal}\n")
                else:
                    told = "lost" if in_time else "late"
                    self._notes.write(f"{told} {holder} after {unrenewed:.2f} s\n")
        return renewals


@dataclass
class Inside:
    """A holder that runs."""

    renewed: float  # monotonic time before the last call that the store answered with yes
    gone: threading.Event = field(default_factory=threading.Event)


class Client:
    """One process. It writes what its holders were told into a file of its own."""

    def __init__(
        self, url: str, address: str, lease: float, notes: Path, options: Mapping[str, Any]
    ) -> None:
        self._counter = Counter(address)
        self._running: dict[str, Inside] = {}
        given = StoreOptions(lease=lease, timeout=1.0, transport_options=options)
        store = store_from_url(url, given)
        file = (notes / str(os.getpid())).open("a", buffering=1)
        self._store: Any = Watched(store, self._running, file)
        announce = Announcer()
        announce.subscribe(self._end_lost)
        self._keeper = LeaseKeeper(self._store, announce, self._store.reap)

    def _end_lost(self, event: Event) -> None:
        if isinstance(event, PermitLostEvent) and (
            inside := self._running.get(event.permit.holder)
        ):
            inside.gone.set()

    def work(self, ended: Any) -> None:
        self._keeper.start()
        threads = [threading.Thread(target=self._run, args=(ended, n)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._keeper.stop()

    def _run(self, ended: Any, thread: int) -> None:
        n = 0
        while not ended.value:
            n += 1
            holder, claims = f"{os.getpid()}-{thread}-{n}", claims_on(*random.choice(WANTED))
            asked, answer = time.monotonic(), None
            with suppress(StoreUnavailable):
                answer = self._store.acquire(claims, holder, AGAIN)
            if isinstance(answer, Permit):
                self._hold(answer, asked)
            self._keeper.discard(holder)
            with suppress(StoreUnavailable):  # its lease ends
                self._store.release(holder, claims)
            time.sleep(random.uniform(0.0, 0.05))

    def _hold(self, permit: Permit, asked: float) -> None:
        """Stay inside for a while, or until the permit is lost; one in some hundred dies there."""
        inside = Inside(asked)
        longest = random.choice([0.02, 0.2, 1.0, 4.0])
        with self._inside([claim.semaphore for claim in permit.claims], permit.holder):
            self._running[permit.holder] = inside
            self._keeper.add(permit, asked)
            inside.gone.wait(random.uniform(0.0, longest))
            del self._running[permit.holder]
            if random.random() < 0.003:
                os.kill(os.getpid(), signal.SIGKILL)

    def _inside(self, names: list[str], holder: str) -> Any:
        first = self._counter.inside(names[0], holder)
        if len(names) == 1:
            return first
        return _Both(first, self._counter.inside(names[1], holder))


class _Both:
    def __init__(self, first: Any, second: Any) -> None:
        self._each = (first, second)

    def __enter__(self) -> None:
        for each in self._each:
            each.__enter__()

    def __exit__(self, *error: object) -> None:
        for each in reversed(self._each):
            each.__exit__(*error)


class Clients:
    """Several of them; those that die are replaced."""

    def __init__(
        self,
        url: str,
        address: str,
        lease: float,
        notes: Path,
        count: int = 3,
        *,
        options: Mapping[str, Any] = NO_OPTIONS,  # semaphore_transport_options
    ) -> None:
        self._given = (url, address, lease, notes, options)
        self._notes = notes
        self._ended = FORK.RawValue("b", 0)  # no lock: one that is killed inside it would keep it
        self._running: list[Any] = []
        self._count = count
        self.killed = 0

    def replace_dead(self) -> None:
        dead = [process for process in self._running if not process.is_alive()]
        assert {process.exitcode for process in dead} <= {-signal.SIGKILL}
        self.killed += len(dead)
        self._running = [process for process in self._running if process not in dead]
        while len(self._running) < self._count:
            process = FORK.Process(target=_work, args=(self._given, self._ended), daemon=True)
            process.start()
            self._running.append(process)

    def notes(self) -> list[str]:
        """Return what holders were told: "ok", "restored", "lost HOLDER …"; "late …" after a lease unrenewed."""
        return [line for file in self._notes.iterdir() for line in whole_lines(file)]

    def __enter__(self) -> Self:
        self.replace_dead()
        return self

    def stop(self) -> None:
        self._ended.value = 1
        for process in self._running:
            process.join(30)
        assert {process.exitcode for process in self._running} <= {0, -signal.SIGKILL}

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()


def _work(given: tuple[Any, ...], ended: Any) -> None:
    Client(*given).work(ended)
