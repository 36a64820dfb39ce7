"""Free permits, and take the granted messages out of the outbox as a process with a broker does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.grant import Grant
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket


def released(store: Store, holder: str | Ticket, claims: Sequence[Claim]) -> list[Grant]:
    """Release the permit; return the granted messages."""
    return store.take(store.release(holder, claims).outgoing)


def reaped(store: Store) -> list[Grant]:
    return store.take(store.reap())


def attached(store: Store, ticket: Ticket, claims: Sequence[Claim], payload: bytes) -> list[Grant]:
    return store.take(store.attach(ticket, claims, payload))


def limited(store: Store, limit: int | None, semaphore: str) -> list[Grant]:
    return store.take(store.set_limit(limit, semaphore))


def messages(grants: list[Any]) -> list[bytes]:
    return [grant.payload for grant in grants]
