"""What the tests of sessions have in common: held waits, and what is seen of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, refused
from tests.conformance.suite import LEASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.session import SessionReply
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

S, T = "worker-1", "worker-2"
HOUR = 3600.0


def holding(session: str = S, ticket: Ticket | None = None, **how: Any) -> Wait:
    return Wait(Kind.REQUEUE, ticket, session=session, **how)


def held(
    store: Store,
    holder: str,
    session: str = S,
    claims: Sequence[Claim] = tuple(claim()),
    **how: Any,
) -> HeldWait:
    """Let a task wait; this session holds its message."""
    ticket = refused(store, claims, holder, holding(session, **how)).ticket
    assert ticket
    return HeldWait(ticket, tuple(claims), keeps=how.get("keeps", 0.0))


def held_in_turn(store: Store, clock: Clock, holders: str) -> list[HeldWait]:
    """Let a task wait for each letter, at one place after the other."""
    waits = []
    for holder in holders:
        waits.append(held(store, holder))
        clock.advance(0.001)
    return waits


def tickets(waits: Sequence[HeldWait]) -> list[Ticket]:
    return [wait.ticket for wait in waits]


def nonces(*waits: HeldWait) -> frozenset[str]:
    return frozenset(wait.ticket.nonce for wait in waits)


def reachable(store: Store, resource: str = "api") -> list[Ticket]:
    return [waiter.ticket for waiter in store.snapshot(resource).waiters if waiter.reachable]


def examine_line(store: Store) -> None:
    """Let the store look at the line; a reap may find that it need not."""
    assert not store.release("unknown", claim()).outgoing


def forgotten_after(seconds: float, store: Store, clock: Clock) -> None:
    """Let this time pass, at the end of which all waits are forgotten, and no moment before."""
    waits = store.snapshot("api").waiting
    clock.advance(seconds - 0.001)
    store.reap()
    assert store.snapshot("api").waiting == waits > 0
    clock.advance(0.001)
    store.reap()
    assert store.snapshot("api").waiting == 0


def lived(store: Store, clock: Clock, seconds: float, *holders: str) -> SessionReply:
    """Let time pass, while the session asks and these holders renew, three times in a lease."""
    reply = store.ask(S)
    for _ in range(round(seconds / (LEASE / 3))):
        clock.advance(LEASE / 3)
        store.renew([admitted(store, claim(), holder) for holder in holders])
        reply = store.ask(S)
    return reply
