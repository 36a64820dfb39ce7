"""Provide the fixtures of the tests, and the times of their store in seconds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pytest

from celery_semaphore.core.formats import NewerFormat
from celery_semaphore.core.lease import BEATS
from celery_semaphore.testing.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.store import Store

LEASE = 30.0
TAKE_UP = 20.0
GRACE = LEASE * 2 / 3


class OpenStore(Protocol):
    def __call__(self, *, now: Callable[[], float], lease: float, take_up: float) -> Store: ...


class UsedClock(Clock):
    """Passes the time of a store that others use: each third of a lease one of them looks at it.

    Without a call it would be a silence, in which no permit ends (A17): that is ``pass_in_silence``.
    """

    store: Store | None = None

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.store and end - self.now > self.store.lease / BEATS:
            self.now += self.store.lease / BEATS
            self._look(self.store)
        self.now = end

    def pass_in_silence(self, seconds: float) -> None:
        super().advance(seconds)

    def _look(self, store: Store) -> None:
        with suppress(NewerFormat):
            store.snapshot("of a bystander")


class Suite:
    """Holds the fixtures of all tests; see the package."""

    @pytest.fixture
    def clock(self) -> UsedClock:
        return UsedClock()

    @pytest.fixture
    def store(self, open_store: OpenStore, clock: UsedClock) -> Store:
        clock.store = open_store(now=clock, lease=LEASE, take_up=TAKE_UP)
        return clock.store

    #: The reason why a store cannot lose its last moments alone; without one it must implement ``remember``.
    never_goes_back: ClassVar[str] = ""

    #: The number of waits that a line of the store can have.
    longest_line: ClassVar[int] = 1_000_000

    def forget(self, store: Any) -> None:
        """Make the server lose all its data; the store itself stays."""
        raise NotImplementedError

    def remember(self, store: Any) -> Callable[[], None]:
        """Return a function that makes the server lose all that happened after this call."""
        if self.never_goes_back:
            pytest.skip(f"never goes back: {self.never_goes_back}")
        msg = "implement remember(store), or set never_goes_back to the reason why it cannot be"
        raise NotImplementedError(msg)

    def set_format(self, store: Any, number: int) -> None:
        raise NotImplementedError
