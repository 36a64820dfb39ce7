"""Limit the calls that one process makes to a server at once."""

from __future__ import annotations

from threading import Condition
from typing import Self

from ..errors import StoreUnavailable


class ConnectionLimit:
    """Let a limited number of calls run at once; a further call waits, for a bounded time.

    This is no ``threading.Semaphore``: a signal handler that calls the store could interrupt one while its
    lock is held, and wait for ever. The lock of a condition is reentrant.
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
                msg = f"The store was not called: {reason}"
                raise StoreUnavailable(msg, reason)
            self._taken += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify()

    def _is_one_free(self) -> bool:
        return self._taken < self._most
