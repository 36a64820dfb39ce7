"""CircuitBreaker: stop calling a server for a while after it has failed."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import StoreUnavailable
from .formats import NewerFormat


class CircuitBreaker:
    """Keeps a server that hangs from blocking its callers again and again.

    After a failure there is no call for ``shortest`` seconds, twice as long after each further failure, ``longest`` at
    most. Then one call may try. (Nygard, Release It!, 2nd ed., chapter 5.)
    """

    def __init__(
        self,
        shortest: float = 1.0,
        longest: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shortest = shortest
        self._longest = longest
        self._clock = clock
        self._pause = 0.0
        self._until = 0.0
        self._newer: NewerFormat | None = None
        self._why = self._reason = ""

    def left(self) -> float:
        """Return the seconds for which the server should not be called."""
        return max(0.0, self._until - self._clock())

    def check(self) -> None:
        """Raise ``StoreUnavailable`` while the store should not be called."""
        if (left := self.left()) > 0:
            msg = f"the store failed a moment ago and is asked again in {left:.1f} s: {self._why}"
            raise StoreUnavailable(msg, self._reason) from self._newer

    def succeeded(self) -> None:
        """Record an answer of the server."""
        self._pause = 0.0

    def failed(self, error: Exception) -> None:
        """Record a failure of the server, and begin a pause."""
        self._pause = min(max(2 * self._pause, self._shortest), self._longest)
        self._until = self._clock() + self._pause
        self._newer = error.with_traceback(None) if isinstance(error, NewerFormat) else None
        self._why, self._reason = str(error), getattr(error, "reason", str(error))
