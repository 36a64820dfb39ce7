"""Limit the calls that one process makes to a server at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from weakref import ref

from ..core.renewal import is_renewing
from ..errors import StoreUnavailable

if TYPE_CHECKING:
    from types import TracebackType


class Place:
    """The right to one connection, for a ``with`` block.

    A signal handler may raise at any line, also between the return of a call and the beginning of a block, or at the
    first line of ``__exit__``. So a place that nothing refers to any more is free again.
    """

    __slots__ = ("_limit",)

    def __init__(self, limit: Callable[[], ConnectionLimit | None]) -> None:
        self._limit = limit

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if limit := self._limit():
            limit.free.put(self)

    def __del__(self) -> None:
        if limit := self._limit():
            limit.free.put(Place(self._limit))


class ConnectionLimit:
    """Let a limited number of calls run at once; a further call waits, for a bounded time.

    It has no lock that a signal handler could find taken, or leave taken when it raises.
    """

    def __init__(self, most: int, timeout: float, count: int | None = None) -> None:
        """Let these calls use ``count`` of the ``most`` connections of this process."""
        self._most, self._timeout = most, timeout
        self._count = most if count is None else count
        self.free = SimpleQueue[Place]()
        for _ in range(self._count):
            self.free.put(Place(ref(self)))

    def place(self) -> Place:
        """Return a free place; raise ``StoreUnavailable`` if there is none in time."""
        try:
            return self.free.get(timeout=self._timeout)
        except Empty:
            reason = (
                f"all {self._most} connections of this process were in use for {self._timeout:g} s"
            )
            msg = f"The store was not called: {reason}"
            raise StoreUnavailable(msg, reason) from None

    def places(self) -> list[Place]:
        """Return all places, or those that became free in time; they are free again when nothing refers to them."""
        ends, found = time.monotonic() + self._timeout, list[Place]()
        with suppress(Empty):
            while len(found) < self._count:
                found.append(self.free.get(timeout=max(0.0, ends - time.monotonic())))
        return found


class ConnectionLimits:
    """Let a limited number of calls run at once, of which one can only be one that renews leases.

    Behind the calls of many threads it would be late, and permits would be lost.
    """

    def __init__(self, most: int, timeout: float) -> None:
        kept = 1 if most > 1 else 0
        self._of_all = ConnectionLimit(most, timeout, most - kept)
        self._of_renewals = ConnectionLimit(most, timeout, kept) if kept else self._of_all

    def place(self) -> Place:
        """Return a free place; raise ``StoreUnavailable`` if there is none in time."""
        if is_renewing():
            with suppress(Empty):
                return self._of_all.free.get_nowait()
            return self._of_renewals.place()
        return self._of_all.place()

    def places(self) -> list[Place]:
        """Return all places, or those that became free in time: see ``ConnectionLimit.places``."""
        found = self._of_all.places()
        return found if self._of_renewals is self._of_all else found + self._of_renewals.places()
