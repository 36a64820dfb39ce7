"""What the tests of blocking calls are written with."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

from celery_semaphore.core.asker import asker_of
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Answer, Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore

from .process import wait_until

SOON = 10.0  # seconds in which everything happens that happens at all


@contextmanager
def thread(target: Callable[[], object]) -> Iterator[threading.Thread]:
    """Runs meanwhile, and must come to its end after."""
    running = threading.Thread(target=target, daemon=True)
    running.start()
    yield running
    running.join(SOON)
    assert not running.is_alive()


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """Let the collector run only where the test calls it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def waiting(store: MemoryStore, resource: str = "api") -> int:
    return store.snapshot(resource).waiting


def known(store: Store) -> int:
    """How many calls of this process have read that they wait: the store knows it earlier."""
    return len(asker_of(store)._waiting)


def occupied(store: MemoryStore, resource: str = "api") -> int:
    return store.snapshot(resource).occupied


class Inside:
    """Who really is inside, counted beside the library."""

    def __init__(self) -> None:
        self.now = self.most = self.entries = 0
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self, weight: int = 1) -> Iterator[None]:
        with self._lock:
            self.now += weight
            self.entries += 1
            self.most = max(self.most, self.now)
        yield
        with self._lock:
            self.now -= weight


def refusal_of(answer: Answer) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def held_by(store: MemoryStore) -> Permit:
    """The permit of the one holder, as it got it."""
    (held,) = store.snapshot("api").holders
    permit = store.acquire([Claim("api", None, 1)], held.holder)
    assert isinstance(permit, Permit)
    return permit


def in_child(body: Callable[[], bool]) -> bool:
    """What it answers in a forked child."""
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            ok = body()
        finally:
            os._exit(0 if ok else 1)
    try:
        _, status = wait_until(
            lambda: end if (end := os.waitpid(pid, os.WNOHANG))[0] else None, SOON
        )
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return os.waitstatus_to_exitcode(status) == 0


class Asked:
    """Stands between a store and whoever asks it."""

    def __init__(self, store: MemoryStore) -> None:
        self.waits: list[Wait | None] = []
        self.answers: list[Answer] = []
        self.at: list[float] = []
        self._acquire = store.acquire
        store.acquire = self.acquire  # type: ignore[method-assign]

    def acquire(self, *question: Any, **named: Any) -> Answer:
        self.waits.append(signature(self._acquire).bind(*question, **named).arguments.get("wait"))
        self.asked()
        self.at.append(time.monotonic())
        answer = self.answered(self._acquire(*question, **named))
        self.answers.append(answer)
        return answer

    def asked(self) -> None:
        """Called before the store is."""

    def answered(self, answer: Answer) -> Answer:
        return answer


class LostAnswers(Asked):
    """Does what it is asked, but nobody hears of it."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        super().__init__(store)
        self.times = times

    def answered(self, answer: Answer) -> Answer:
        self.times -= 1
        if self.times >= 0:
            raise StoreUnavailable("gone")
        return answer


class Failing(LostAnswers):
    """Does not even do it."""

    def asked(self) -> None:
        if self.times > 0:
            self.times -= 1
            raise StoreUnavailable("gone")
