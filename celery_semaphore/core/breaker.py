"""CircuitBreaker: after a failure, do not ask again for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import StoreUnavailable
from .formats import NewerFormat


class CircuitBreaker:
    """Keeps a server that hangs from holding up its callers again and again.

    After a failure nobody asks for ``shortest`` seconds, twice as long after each further failure,
    ``longest`` at most; then one call may try. (Nygard, Release It!, 2nd ed., chapter 5.)
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
        """Seconds for which it should not be asked."""
        return max(0.0, self._until - self._clock())

    def check(self) -> None:
        """Raise ``StoreUnavailable`` while the store should not be asked."""
        if (left := self.left()) > 0:
            msg = f"the store failed a moment ago and is asked again in {left:.1f} s: {self._why}"
            raise StoreUnavailable(msg, self._reason) from self._newer

    def succeeded(self) -> None:
        """It answered."""
        self._pause = 0.0

    def failed(self, error: Exception) -> None:
        """It did not."""
        self._pause = min(max(2 * self._pause, self._shortest), self._longest)
        self._until = self._clock() + self._pause
        self._newer = error.with_traceback(None) if isinstance(error, NewerFormat) else None
        self._why, self._reason = str(error), getattr(error, "reason", str(error))
