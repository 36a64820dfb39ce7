"""The books of a worker's permits, without a worker."""

from __future__ import annotations

from celery_semaphore.core.events import Announcer, Event, PermitReleasedEvent
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Claim, Permit
from celery_semaphore.testing import Clock, MemoryStore
from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.releaser import Releaser
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
        ledger.held(permit, since)
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
        ledger.held(permit(holder), clock.now)
    ledger.ended("a")
    clock.now += 11
    keeper.tick()
    assert store.renewed == ["b"]
    assert [type(event) for event in events] == [PermitReleasedEvent]
