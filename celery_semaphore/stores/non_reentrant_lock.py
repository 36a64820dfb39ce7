"""Let one call run at a time, in a process with signal handlers that may call the store."""

from __future__ import annotations

from threading import RLock
from typing import Any, Self

from ..errors import StoreUnavailable

# Its ``__exit__`` is not written in Python, so that no signal handler can raise at its first line, and leave the lock
# taken. It knows its owner, too.
_Lock: Any = type(RLock())


class AlreadyInCall(StoreUnavailable):
    """Another call is under way, perhaps one that this call has interrupted."""


class NonReentrantLock(_Lock):  # type: ignore[misc] # the type that a package for greenlets may have put there
    """A lock that refuses a signal handler at once if the interrupted thread holds the lock.

    The handler would wait for ever, and must not see a half-done change.
    """

    def __new__(cls, _timeout: float) -> Self:
        """Make a lock; its type takes no argument."""
        made: Self = super().__new__(cls)
        return made

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout

    def __enter__(self) -> Self:
        if self._is_owned():
            raise AlreadyInCall(UNDER_WAY)
        try:
            is_mine = self.acquire(timeout=self._timeout)
        except BaseException:  # a signal handler raised, perhaps right after the lock was taken
            if self._is_owned():
                self.release()
            raise
        if not is_mine:
            raise AlreadyInCall(UNDER_WAY)
        return self


UNDER_WAY = "The store was not called: another call of this process is under way"
