"""The books of a worker's permits, without a worker."""

from __future__ import annotations

import time
from dataclasses import replace

from celery_semaphore.core.announcer import Announcer
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.events import Event, PermitAcquiredEvent, PermitReleasedEvent
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.releaser import Releaser
from celery_semaphore.testing import Clock, MemoryStore
from celery_semaphore.worker.permits.ledger import Ledger
from tests.support.failing_store import FailingStore, permit

API = (Claim("api", None, 5),)


def test_permits_are_of_those_that_have_them() -> None:
    """Oldest first; what only asked for one has none."""
    store, announce = MemoryStore(), Announcer()
    ledger = Ledger(LeaseKeeper(store, announce), Releaser(store), announce, lambda _: None)
    for holder in ("a", "b", "c"):
        ledger.asked(holder, API)
    for since, holder in ((2.0, "c"), (1.0, "b")):
        permit = store.acquire(API, holder)
        assert isinstance(permit, Permit)
        ledger.held(PermitAcquiredEvent(permit), since)
    assert [each.holder for each in ledger.permits()] == ["b", "c"]
    ledger.refused("b")
    assert [each.holder for each in ledger.permits()] == ["c"]


def test_what_ended_is_not_announced_as_lost() -> None:
    store, events = FailingStore(), list[Event]()
    announce, clock = Announcer(), Clock()
    announce.subscribe(events.append)
    keeper = LeaseKeeper(store, announce, clock=clock)  # type: ignore[arg-type]
    releaser = Releaser(store)  # type: ignore[arg-type]
    ledger = Ledger(keeper, releaser, announce, lambda _: None)
    for holder in "ab":
        ledger.asked(holder, API)
        ledger.held(PermitAcquiredEvent(permit(holder)), clock.now)
    ledger.ended("a")
    clock.now += 11
    keeper.tick()
    assert store.renewed == ["b"]
    assert [type(event) for event in events] == [PermitAcquiredEvent] * 2 + [PermitReleasedEvent]


def a_ledger(events: list[Event]) -> Ledger:
    announce, store = Announcer(), FailingStore()
    announce.subscribe(events.append)
    keeper = LeaseKeeper(store, announce)  # type: ignore[arg-type]
    return Ledger(keeper, Releaser(store), announce, lambda _: None)  # type: ignore[arg-type]


def test_a_permit_is_announced_once_though_its_note_is_entered_twice() -> None:
    """As by a signal handler that interrupted the first entry."""
    events = list[Event]()
    ledger = a_ledger(events)
    ledger.asked("a", API)
    for _ in range(2):
        ledger.held(PermitAcquiredEvent(permit("a"), "call", 2.0, 0.1), 0.0)
    (event,) = events
    assert isinstance(event, PermitAcquiredEvent)
    assert (event.task, event.waited, event.took) == ("call", 2.0, 0.1)
    assert event.permit.claims == API
    assert ledger.name_of("a") == "call"


def test_a_permit_is_announced_before_its_task_is_watched() -> None:
    """Celery forgets tasks when it flushes its pool, so some are never watched."""
    events = list[Event]()
    ledger = a_ledger(events)
    ledger.asked("a", API)
    ledger.held(PermitAcquiredEvent(permit("a")), 0.0)
    ledger.ended("a")
    assert [type(event) for event in events] == [PermitAcquiredEvent, PermitReleasedEvent]


def test_the_time_of_a_permit_does_not_depend_on_the_clock_of_the_store() -> None:
    events = list[Event]()
    ledger = a_ledger(events)
    ledger.asked("a", API)
    late = replace(permit("a"), acquired_at=time.time() + 3600)
    ledger.held(PermitAcquiredEvent(late), time.monotonic() - 5)
    ledger.ended("a")
    assert isinstance(events[1], PermitReleasedEvent)
    assert 5 <= events[1].held < 60


def test_what_was_asked_last_is_released() -> None:
    """A19: the store named other claims; once there is a permit, a note that is entered twice changes nothing."""
    store, announce = MemoryStore(), Announcer()
    ledger = Ledger(LeaseKeeper(store, announce), Releaser(store), announce, lambda _: None)
    disk = (Claim("disk", None, 5),)
    for claims in (API, disk):
        ledger.asked("a", claims)
    permit = store.acquire(disk, "a")
    assert isinstance(permit, Permit)
    ledger.held(PermitAcquiredEvent(permit), 1.0)
    ledger.asked("a", API)
    assert [each.claims for each in ledger.permits()] == [disk]
