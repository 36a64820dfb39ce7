"""A release tells the waits of its own process that they were granted: they need not ask."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, LostAnswers, known, thread
from tests.support.process import wait_until


@pytest.fixture
def mute(store: MemoryStore) -> MemoryStore:
    """A store that answers no question: what waits is told, or acquires again after ten seconds."""

    def ask(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    store.ask = ask  # type: ignore[method-assign]
    return store


def test_a_release(mute: MemoryStore) -> None:
    api, since = Semaphore("api", 1, store=mute, timeout=SOON), time.monotonic()
    permit = api.acquire()
    with thread(lambda: api.release(api.acquire())):
        wait_until(lambda: known(mute) == 1)
        api.release(permit)
    assert time.monotonic() - since < SOON / 2


def test_a_release_in_the_background(mute: MemoryStore) -> None:
    api, since = Semaphore("api", 1, store=mute, timeout=SOON), time.monotonic()
    held = held_permits_in(mute)
    permit = api.acquire()
    with thread(lambda: api.release(api.acquire())):
        wait_until(lambda: known(mute) == 1)
        held.release_later(permit.holder, permit.claims)
    assert time.monotonic() - since < SOON / 2


def test_a_call_that_gives_up(mute: MemoryStore) -> None:
    """It stood before another one, for a weight that was not free."""
    api, since = Semaphore("api", 2, store=mute, timeout=SOON), time.monotonic()
    both = Semaphore("api", 2, weight=2, store=mute, timeout=0.5)

    def wait_for_both() -> None:
        with pytest.raises(SemaphoreTimeout):
            both.acquire()

    with api, thread(wait_for_both):
        wait_until(lambda: known(mute) == 1)
        api.release(api.acquire())
    assert time.monotonic() - since < SOON / 2


def test_a_handler_may_release_to_the_call_that_it_interrupted(mute: MemoryStore) -> None:
    """Also while that call goes to sleep, or wakes: what it sleeps on must have no lock of its own."""
    api = Semaphore("api", 1, store=mute, timeout=SOON)
    permits = [api.acquire()]

    def release(*_: object) -> None:
        api.release(permits[0])

    before = signal.signal(signal.SIGUSR1, release)
    try:
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            wait_until(lambda: known(mute) == 1)
            signal.pthread_kill(main, signal.SIGUSR1)

        with thread(interrupt):
            since = time.monotonic()
            api.release(api.acquire())
        assert time.monotonic() - since < SOON / 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_call_whose_permit_came_by_a_lost_answer_tells_nobody(store: MemoryStore) -> None:
    LostAnswers(store, times=10**6)
    with pytest.raises(SemaphoreTimeout):
        Semaphore("api", 1, store=store, timeout=0).acquire()
    wait_until(lambda: list(store.resources()) == [])
