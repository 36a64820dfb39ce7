"""The books of a worker's permits, without a worker."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from celery_semaphore.core.announcer import Announcer
from celery_semaphore.core.events import Event, PermitAcquiredEvent, PermitReleasedEvent
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Claim, MessageId, Permit
from celery_semaphore.core.releaser import Releaser
from celery_semaphore.core.store import HandedOn
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


# -- without a note before the acquire


class Watched:
    """A request whose process notes no claims."""

    task: Any = None
    claims = API

    def permit_held(self, since: float) -> None: ...
    def permit_lost(self, reason: str) -> None: ...


class Releases(list[tuple[Any, ...]]):
    """What a ledger has released."""

    def release(self, *release: Any) -> None:
        self.append(release)

    def after(self, holder: str, then: Any) -> None: ...
    def when(self, gone: Any, then: Any) -> None:
        then()  # the process is gone, or its end was reported


def unasked() -> tuple[Ledger, Releases]:
    """A ledger that knows the claims of the task ``call``."""
    announce, releases = Announcer(), Releases()
    keeper = LeaseKeeper(FailingStore(), announce)  # type: ignore[arg-type]
    claims = {"call": API}.get
    ledger = Ledger(keeper, releases, announce, lambda _: None, lambda name: claims(name, ()))  # type: ignore[arg-type]
    return ledger, releases


def test_a_permit_has_the_claims_that_all_calls_of_its_task_have() -> None:
    ledger, releases = unasked()
    ledger.held(PermitAcquiredEvent(permit("a"), "call"), 1.0)
    assert [each.claims for each in ledger.permits()] == [API]
    ledger.ended("a")
    assert releases == [("a", API, None)]


def test_a_permit_of_unknown_claims_has_ended() -> None:
    ledger, _ = unasked()
    ledger.held(PermitAcquiredEvent(permit("a"), "another"), 1.0)
    assert not ledger.has("a")


def test_what_was_noted_goes_before_what_all_calls_have() -> None:
    """A19: the wait of the task had other claims."""
    ledger, releases = unasked()
    kept = (Claim("api", None, 5, 2),)
    ledger.watch("a", Watched())
    ledger.asked("a", kept)
    ledger.held(PermitAcquiredEvent(permit("a"), "call"), 1.0)
    assert [each.claims for each in ledger.permits()] == [kept]
    ledger.ended("a")
    assert releases == [("a", kept, None)]


def test_a_note_that_is_entered_after_the_end_is_of_no_permit() -> None:
    """As by a signal handler that interrupted the first entry, and ended the task."""
    ledger, _ = unasked()
    ledger.held(PermitAcquiredEvent(permit("a"), "call"), 1.0)
    ledger.ended("a")
    ledger.held(PermitAcquiredEvent(permit("a"), "call"), 1.0)
    assert not ledger.has("a")


def test_a_process_that_noted_nothing_may_have_acquired() -> None:
    """It died right after, or the answer of the store was lost."""
    ledger, releases = unasked()
    ledger.watch("a", Watched())
    ledger.ended("a")
    assert releases == [("a", API, None)]


def test_what_its_process_released_is_not_released_again() -> None:
    """It was interrupted between the answer of the store and the note of its permit."""
    ledger, releases = unasked()
    ledger.watch("a", Watched())
    ledger.released("a", HandedOn())
    ledger.ended("a")
    assert releases == []


def test_an_end_that_comes_twice_releases_once() -> None:
    """The second one would say that the task has run, and its redelivery would be taken for a copy."""
    ledger, releases = unasked()
    ledger.watch("a", Watched())
    ledger.ended("a")
    ledger.ended("a", lambda: True, MessageId("a:0:0"))
    assert releases == [("a", API, None)]


def test_a_task_that_reached_no_process_has_acquired_nothing() -> None:
    ledger, releases = unasked()
    ledger.ended("a")
    assert releases == []
    ledger.held(PermitAcquiredEvent(permit("a"), "call"), 1.0)
    assert ledger.holds("a"), "it was accepted later"


def test_a_refused_task_has_acquired_nothing() -> None:
    ledger, releases = unasked()
    ledger.watch("a", Watched())
    ledger.refused("a")
    ledger.ended("a")
    assert releases == []
