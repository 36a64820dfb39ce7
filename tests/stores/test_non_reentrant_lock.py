"""One call at a time, and signal handlers that come in between."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from celery_semaphore.errors import SemaphoreTimeout
from celery_semaphore.semaphore import Semaphore
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.non_reentrant_lock import AlreadyInCall, NonReentrantLock
from celery_semaphore.stores.options import StoreOptions
from tests.support.held_permits import forgotten_after

from .conftest import claim, interrupted, one_after_the_other, permit_of


@pytest.fixture(autouse=True)
def _holdings() -> Iterator[None]:
    with forgotten_after():
        yield


def test_others_wait_for_their_turn() -> None:
    lock = NonReentrantLock(10.0)
    assert one_after_the_other(lambda: lock) == ["first", "second"]


def test_but_for_a_bounded_time() -> None:
    turn, said = NonReentrantLock(0.1), []

    def other() -> None:
        with pytest.raises(AlreadyInCall), turn:
            pass
        said.append("engaged")

    with turn:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(5)
    assert said == ["engaged"]


def test_who_has_it_is_refused_at_once() -> None:
    turn, start = NonReentrantLock(10.0), time.monotonic()
    with turn, pytest.raises(AlreadyInCall), turn:
        pass
    assert time.monotonic() - start < 5
    with turn:
        pass


def test_a_signal_handler_may_raise() -> None:
    """Wherever it interrupts the thread that has it: the lock is free again."""
    turn = NonReentrantLock(0.1)

    def is_free() -> None:
        with turn:
            pass

    interrupted(lambda: turn, is_free)
    assert one_after_the_other(lambda: turn) == ["first", "second"]


def test_whoever_interrupts_the_memory_store_waits_no_longer_than_it_may() -> None:
    """As a signal handler does in the midst of a call, here whenever it asks for the time."""
    interrupts: list[Callable[[], object]] = []

    def now() -> float:
        if interrupts:
            interrupts.pop()()
        return time.time()

    def handler() -> None:
        start = time.monotonic()
        with pytest.raises(SemaphoreTimeout, match="under way"):
            Semaphore("api", 1, store=store).acquire(timeout=0.1)
        assert time.monotonic() - start < 1

    store = MemoryStore(StoreOptions(now=now))
    interrupts.append(handler)
    permit_of(store.acquire(claim(), "a"))
    assert not interrupts
    store.release("a", claim())
    Semaphore("api", 1, store=store).acquire(timeout=0)
