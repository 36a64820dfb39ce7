"""Acquire permits and places in line, each with the answer that the test expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Answer, Reason, Refusal
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.suite import LEASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

A = TypeVar("A", Permit, Refusal)


def claim(
    limit: int | None = 1, *, of: str = "api", key: str | None = None, weight: int = 1
) -> list[Claim]:
    return [Claim(of, key, limit, weight)]


def admitted(
    store: Store, claims: Sequence[Claim], holder: str, wait: Wait | None = None
) -> Permit:
    return _expected(Permit, store.acquire(claims, holder, wait))


def refused(
    store: Store, claims: Sequence[Claim], holder: str, wait: Wait | None = None
) -> Refusal:
    return _expected(Refusal, store.acquire(claims, holder, wait))


def _expected(kind: type[A], answer: Answer) -> A:
    assert isinstance(answer, kind), answer
    return answer


def why(store: Store, claims: Sequence[Claim], holder: str, wait: Wait | None = None) -> Reason:
    return refused(store, claims, holder, wait).reason


def requeued(store: Store, claims: Sequence[Claim], holder: str, **how: Any) -> Ticket:
    """Refuse a requeued task without a session; return the ticket of its wait in transit."""
    ticket = refused(store, claims, holder, Wait(Kind.REQUEUE, **how)).ticket
    assert ticket
    return ticket


def parked(
    store: Store,
    claims: Sequence[Claim],
    holder: str,
    *,
    name: str = "",
    ends_in: float | None = None,
    **how: Any,
) -> Ticket:
    """Return the ticket of a parked waiter; its message is the name of its holder."""
    ticket = refused(store, claims, holder, Wait(Kind.PARK, **how)).ticket
    assert ticket
    assert not store.attach(ticket, claims, holder.encode(), name=name, ends_in=ends_in)
    return ticket


def named(
    store: Store,
    holder: str,
    ends_in: float | None = None,
    claims: Sequence[Claim] = tuple(claim()),
    **how: Any,
) -> Ticket:
    """Return the ticket of a parked waiter; an operator finds its message by its holder's name."""
    return parked(store, claims, holder, name=holder, ends_in=ends_in, **how)


def came_back(ticket: Ticket | None, kind: Kind = Kind.REQUEUE, **how: Any) -> Wait:
    return Wait(kind, ticket=ticket, **how)


def two_windows_later(store: Store, clock: Clock, permits: list[Permit], *sessions: str) -> None:
    """Let the next declaration decide alone, for those so far are old; these permits and sessions live on."""
    for _ in range(2):
        clock.advance(0.7 * LEASE)
        assert set(store.renew(permits).values()) == {Renewal.OK}
        for session in sessions:
            store.ask(session)


def limits_set(store: Store) -> dict[str, int]:
    """Return the limits that operators set."""
    found = {name: decided.limit for name, decided in store.decisions().items()}
    return {name: limit for name, limit in found.items() if limit is not None}
