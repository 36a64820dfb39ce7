"""What the tests of promotions have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Kind
from celery_semaphore.core.ticket import Ticket
from tests.conformance.acquisition import admitted, came_back, claim, named
from tests.conformance.grants import released

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

BOTH = claim() + claim(of="disk")
UNKNOWN = Ticket("unknown", 246, 1)


def queued(store: Store, clock: Clock, *holders: str, priority: int = 9) -> list[Ticket]:
    """Return the tickets of holders that are parked behind "a", one after the other."""
    admitted(store, claim(), "a")
    tickets = list[Ticket]()
    for holder in holders:
        clock.advance(1)
        tickets.append(named(store, holder, priority=priority))
    return tickets


def overtaking(store: Store, clock: Clock) -> Ticket:
    """Return the first ticket of "c", which was promoted past "b"."""
    queued(store, clock, "b")
    clock.advance(1)
    ticket = named(store, "c")
    store.promote([ticket], "api")
    return ticket


def order(store: Store, wanted: list[str]) -> list[str]:
    """Return the order in which the permit of "a" is handed on."""
    found, holder = list[str](), "a"
    for _ in wanted:
        (grant,) = released(store, holder, claim())
        found.append(grant.payload.decode())
        store.sent([grant])
        holder = found[-1]
        admitted(store, claim(), holder, came_back(grant.ticket, Kind.PARK))
    return found


def line(store: Store) -> list[str]:
    """Return the nonces of the waits, in order."""
    seen = store.snapshot("api")
    assert [each.position for each in seen.waiters] == list(range(seen.waiting))
    return [each.ticket.nonce for each in seen.waiters]
