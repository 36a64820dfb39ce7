"""Provide the fixtures of the tests, and the times of their store in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pytest

from ..clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.store import Store

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
