"""Provide the fixtures and helpers of the tests."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pytest

from ...core.permit import Claim, Grant, Kind, Permit, Reason, Refusal, Wait
from ..clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...core.store import Store
    from ...core.ticket import Ticket

LEASE = 30.0
TAKE_UP = 20.0
GRACE = LEASE * 2 / 3


class OpenStore(Protocol):
    def __call__(self, *, now: Callable[[], float], lease: float, take_up: float) -> Store: ...


class Suite:
    """Holds the fixtures of all tests; see the package."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, open_store: OpenStore, clock: Clock) -> Store:
        return open_store(now=clock, lease=LEASE, take_up=TAKE_UP)

    #: The reason why a store cannot lose its last moments alone; without one it must implement ``remember``.
    never_goes_back: ClassVar[str] = ""

    def forget(self, store: Any) -> None:
        """Make the server lose all its data; the store itself stays."""
        raise NotImplementedError

    def remember(self, store: Any) -> Callable[[], None]:  # noqa: ARG002
        """Return a function that makes the server lose all that happened after this call."""
        if self.never_goes_back:
            pytest.skip(f"never goes back: {self.never_goes_back}")
        msg = "implement remember(store), or set never_goes_back to the reason why it cannot be"
        raise NotImplementedError(msg)

    def set_format(self, store: Any, number: int) -> None:
        raise NotImplementedError


def claim(
    limit: int = 1, *, of: str = "api", key: str | None = None, weight: int = 1
) -> list[Claim]:
    return [Claim(of, key, limit, weight)]


def admitted(
    store: Store, claims: Sequence[Claim], holder: str, wait: Wait | None = None
) -> Permit:
    answer = store.acquire(claims, holder, wait)
    assert isinstance(answer, Permit), answer
    return answer


def refused(
    store: Store, claims: Sequence[Claim], holder: str, wait: Wait | None = None
) -> Refusal:
    answer = store.acquire(claims, holder, wait)
    assert isinstance(answer, Refusal), answer
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


def released(store: Store, holder: str | Ticket, claims: Sequence[Claim]) -> list[Grant]:
    """Release, and take the granted messages out of the outbox as a caller with a broker does."""
    return store.take(store.release(holder, claims))


def reaped(store: Store) -> list[Grant]:
    return store.take(store.reap())


def attached(store: Store, ticket: Ticket, claims: Sequence[Claim], payload: bytes) -> list[Grant]:
    return store.take(store.attach(ticket, claims, payload))


def limited(store: Store, limit: int | None, semaphore: str) -> list[Grant]:
    return store.take(store.set_limit(limit, semaphore))


def came_back(ticket: Ticket | None, kind: Kind = Kind.REQUEUE, **how: Any) -> Wait:
    return Wait(kind, ticket=ticket, **how)


def messages(grants: list[Any]) -> list[bytes]:
    return [grant.payload for grant in grants]
