"""Sweeps of processes without a worker: what ends by time is found, though no call comes at its resource."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.core import forecast, sweep
from celery_semaphore.core.asker import Asker, asker_of
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.session import GRANT_S, HeldWait
from celery_semaphore.core.sweep import sweep_pause
from celery_semaphore.core.ticket import DEFAULT_PRIORITY
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock
from tests.support.calling import SOON, refusal_of, thread, waiting
from tests.support.process import wait_until

CLAIMS = (Claim("api", None, 1),)
LEASE_S = 6 * SOON  # the calls themselves look at their resources three times in a lease


class Calls:
    """Notes which calls of a session are made, and fails the sweeps that it shall."""

    def __init__(self, store: MemoryStore) -> None:
        self.made: list[str] = []
        self.error: Exception | None = None
        self._reap, self._ask = store.reap, store.ask
        store.reap = self.reap  # type: ignore[method-assign]
        store.ask = self.ask  # type: ignore[method-assign]

    def reap(self, limit: int = 100) -> Any:
        self.made.append("reap")
        if self.error:
            raise self.error.with_traceback(None)
        return self._reap(limit)

    def ask(self, *words: Any, **named: Any) -> Any:
        self.made.append("ask")
        if isinstance(self.error, StoreUnavailable):
            raise self.error.with_traceback(None)
        return self._ask(*words, **named)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "SLOWEST_S", 0.01)


@pytest.fixture
def held() -> Callable[[MemoryStore, str], HeldWait]:
    def wait(store: MemoryStore, session: str) -> HeldWait:
        ticket = refusal_of(
            store.acquire(CLAIMS, session, Wait(Kind.BLOCK, session=session))
        ).ticket
        assert ticket
        return HeldWait(ticket, CLAIMS, Kind.BLOCK)

    return wait


@pytest.fixture
def asking(held: Callable[[MemoryStore, str], HeldWait]) -> Callable[[MemoryStore], Asker]:
    """Let a call wait at a full resource, and its session ask."""

    def started(store: MemoryStore) -> Asker:
        store.acquire(CLAIMS, "a")
        asker = asker_of(store)
        asker.add(held(store, asker.session))
        return asker

    return started


@pytest.mark.parametrize(
    ("sessions", "pause"), [(0, 2.0), (1, 2.0), (10, 2.0), (15, 3.0), (49, 9.8), (51, 10.0)]
)
def test_many_sessions_sweep_in_turns(sessions: int, pause: float) -> None:
    assert sweep_pause(sessions) == pytest.approx(pause)


def test_the_waits_of_a_killed_process_delay_others_by_one_grant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the first of them is granted a permit (E7), and the sweep notices when that ends."""
    monkeypatch.setattr(sweep, "SWEEP_S", 0.02)
    clock = Clock()
    store = MemoryStore(StoreOptions(lease=LEASE_S, now=clock))
    store.acquire(CLAIMS, "a")
    for holder in "bcdef":
        how = Wait(Kind.BLOCK, priority=DEFAULT_PRIORITY, session="killed")
        store.acquire(CLAIMS, holder, how)
    clock.advance(0.001)
    api, got = Semaphore("api", 1, store=store, timeout=SOON), list[Permit]()

    def acquire() -> None:
        try:
            got.append(api.acquire())
        except SemaphoreTimeout:
            return
        api.release(got[0])

    with thread(acquire) as running:
        wait_until(lambda: waiting(store) == 6)
        store.release("a", CLAIMS)
        assert store.snapshot("api").holders[0].holder in "bcdef"
        clock.advance(GRANT_S)
        running.join(SOON / 2)
        assert got


def test_a_short_wait_costs_no_sweep(asking: Callable[[MemoryStore], Asker]) -> None:
    calls = Calls(store := MemoryStore())
    asking(store)
    wait_until(lambda: len(calls.made) >= 3)
    assert "reap" not in calls.made


def test_nor_does_another_one_later(
    asking: Callable[[MemoryStore], Asker], held: Callable[[MemoryStore, str], HeldWait]
) -> None:
    """The last sweep is long ago, as no call waited meanwhile."""
    calls = Calls(store := MemoryStore())
    asker = asking(store)
    (first,) = asker._waiting.values()
    asker.discard(first.wait.ticket)
    time.sleep(0.2)  # its thread is idle, and stays for the next call
    asker._sweeps_at = 0.0
    asker.add(held(store, asker.session))
    asked = len(calls.made)
    wait_until(lambda: len(calls.made) >= asked + 3)
    assert "reap" not in calls.made


def test_it_sweeps_again_after_the_pause(
    asking: Callable[[MemoryStore], Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEEP_S", 0.2)
    calls, since = Calls(store := MemoryStore()), time.monotonic()
    asking(store)
    wait_until(lambda: calls.made.count("reap") >= 3)
    assert time.monotonic() - since >= 3 * 0.2


def test_the_question_after_a_sweep_tells_what_it_granted(
    asking: Callable[[MemoryStore], Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question before it would leave that to the next one, a second later."""
    monkeypatch.setattr(sweep, "SWEEP_S", 0.0)
    calls = Calls(store := MemoryStore())
    asking(store)
    wait_until(lambda: len(calls.made) >= 2)
    assert calls.made[:2] == ["reap", "ask"]


def test_the_more_sessions_the_longer_the_pause(
    asking: Callable[[MemoryStore], Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, known = MemoryStore(), list[int]()
    for n in range(7):
        store.ask(f"{n}")

    def noted(sessions: int) -> float:
        known.append(sessions)
        return 0.05

    monkeypatch.setattr("celery_semaphore.core.asker.sweep_pause", noted)
    asking(store)
    wait_until(lambda: known[-1] == 8)


@pytest.mark.parametrize(
    "error", [SemaphoreError("no right to reap"), ValueError("a foreign name")]
)
def test_a_sweep_that_fails_keeps_no_call_from_its_grant(
    asking: Callable[[MemoryStore], Asker], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(sweep, "SWEEP_S", 0.0)
    calls = Calls(store := MemoryStore())
    calls.error = error
    asking(store)
    wait_until(lambda: calls.made.count("ask") > 1)
    calls.error = None  # its thread goes on, and would log it in later tests
    assert calls.made[:4] == ["reap", "ask"] * 2


def test_a_store_that_is_away_is_asked_only(
    asking: Callable[[MemoryStore], Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep would hang before each question, and the calls would learn later that the store is back."""
    monkeypatch.setattr(sweep, "SWEEP_S", 0.0)
    monkeypatch.setattr("celery_semaphore.core.asker.SLOWEST_S", 0.01)
    calls = Calls(store := MemoryStore())
    asking(store)
    wait_until(lambda: "reap" in calls.made)
    calls.error = StoreUnavailable("gone")
    wait_until(lambda: calls.made[-5:] == ["ask"] * 5)
    swept = calls.made.count("reap")
    calls.error = None
    wait_until(lambda: calls.made.count("reap") > swept)
