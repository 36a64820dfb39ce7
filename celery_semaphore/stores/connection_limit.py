"""How many calls of one process a server gets at once."""

from __future__ import annotations

from threading import Condition
from typing import Self

from ..errors import StoreUnavailable


class ConnectionLimit:
    """So many calls may be under way at once; whoever finds no place waits for one, for a bounded time.

    Not a semaphore of Python's: a signal handler that asks the store in the midst of one would wait for
    the lock of whom it interrupted. A condition can be entered again.
    """

    def __init__(self, most: int, timeout: float) -> None:
        self._most, self._timeout = most, timeout
        self._taken = 0
        self._changed = Condition()

    def __enter__(self) -> Self:
        with self._changed:
            if self._taken >= self._most and not self._changed.wait_for(
                self._is_one_free, self._timeout
            ):
                reason = f"all {self._most} connections of this process were in use for {self._timeout:g} s"
                msg = f"The store was not asked: {reason}"
                raise StoreUnavailable(msg, reason)
            self._taken += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify()

    def _is_one_free(self) -> bool:
        return self._taken < self._most
