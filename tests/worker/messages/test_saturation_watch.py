"""What a worker says once a minute of semaphores that stay saturated."""

from __future__ import annotations

import logging

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore
from celery_semaphore.worker.messages.saturation_watch import KEYS, SEMAPHORES, SaturationWatch


class Told:
    """A watch, its store, and the clock of both."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.clock = Clock()
        self.store = MemoryStore(StoreOptions(lease=3600.0, now=self.clock))
        self.watch = SaturationWatch(now=self.clock)
        self._caplog = caplog
        caplog.set_level(logging.INFO, "celery_semaphore")

    def refuse(self, holder: str, semaphore: str = "api", key: str | None = None) -> None:
        claim = Claim(semaphore, key, 1)
        self.store.acquire([claim], holder, Wait(Kind.REQUEUE, longest=3600, shortest=3000))
        self.watch.refused(semaphore, [claim])

    def park_too_heavy(self, holder: str, semaphore: str = "api", key: str | None = None) -> None:
        claim = Claim(semaphore, key, 2, weight=2)
        self.store.acquire([claim], f"before-{holder}")
        refused = self.store.acquire([claim], holder, Wait(Kind.PARK))
        assert isinstance(refused, Refusal)
        assert refused.ticket
        self.store.attach(refused.ticket, [claim], b"", name=holder)
        self.store.set_limit(1, claim.resource)
        self.store.release(f"before-{holder}", [claim])
        self.watch.refused(semaphore, [claim])

    def after(self, seconds: float) -> list[str]:
        self.clock.advance(seconds)
        self._caplog.clear()
        self.watch.tell(self.store)
        return self._caplog.messages


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_once_a_minute_while_tasks_wait(told: Told) -> None:
    told.store.acquire([Claim("api", None, 1)], "runs:1")
    told.refuse("one:1")
    assert told.after(30) == []
    told.refuse("two:1")
    assert told.after(31) == ["semaphore 'api' stays saturated: 2 wait, the oldest for 61 s"]
    assert told.after(59) == []
    assert told.after(2) == ["semaphore 'api' stays saturated: 2 wait, the oldest for 122 s"]


def test_a_pause_is_named(told: Told) -> None:
    told.store.pause("api")
    told.refuse("one:1")
    assert told.after(61) == ["semaphore 'api' is paused: 1 wait, the oldest for 61 s"]


def test_what_is_too_heavy_is_named(told: Told) -> None:
    """Nothing is in use there, and it would be called saturated for ever."""
    told.park_too_heavy("one:1")
    (said,) = told.after(61)
    heavy = "has only tasks that are too heavy for its limit"
    assert said == f"semaphore 'api' {heavy}: 1 wait, the oldest for 61 s"
    told.store.acquire([Claim("api", None, 1)], "runs:1")
    told.refuse("two:1")
    (said,) = told.after(61)
    assert said == "semaphore 'api' stays saturated: 2 wait, the oldest for 122 s"


def test_nothing_once_no_task_waits(told: Told) -> None:
    told.refuse("one:1")  # it runs
    assert told.after(61) == []
    assert told.after(61) == []


def test_keys_are_counted_and_not_named(told: Told) -> None:
    """They come from arguments, which are never logged."""
    for key in ("secret-7", "secret-8"):
        told.store.acquire([Claim("export", key, 1)], f"{key}:1")
        told.refuse(f"w{key}:1", "export", key)
    told.refuse("free:1", "export", "9")
    (said,) = told.after(60)
    text = "semaphore 'export' stays saturated at 2 of its keys: 2 wait, the oldest for 60 s"
    assert said == text
    told.store.pause("export/secret-7")
    told.park_too_heavy("heavy:1", "export", "heavy")
    (said,) = told.after(60)
    assert said == (
        "semaphore 'export' stays saturated at 1 of its keys, is paused at 1 of its keys,"
        " has only tasks that are too heavy for its limit at 1 of its keys:"
        " 3 wait, the oldest for 120 s"
    )


def test_what_is_remembered_is_bounded(told: Told) -> None:
    claims = [Claim("export", str(n), 1) for n in range(3 * KEYS)]
    for claim in claims:
        told.watch.refused("export", [claim])
    for n in range(2 * SEMAPHORES):
        told.watch.refused(f"s{n}", [Claim(f"s{n}", None, 1)])
    assert len(told.watch._known) == SEMAPHORES
    assert len(told.watch._known["export"].resources) == KEYS


def test_only_the_semaphore_that_refused_counts(told: Told) -> None:
    told.watch.refused("api", [Claim("api", None, 1), Claim("db", None, 1)])
    told.watch.refused("", [Claim("api", None, 1)])
    assert set(told.watch._known) == {"api"}
    assert told.watch._known["api"].resources == {"api"}
