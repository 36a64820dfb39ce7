"""Let one call run at a time, in a process with signal handlers that may call the store."""

from __future__ import annotations

from threading import Lock, get_ident
from typing import Self

from ..errors import StoreUnavailable


class AlreadyInCall(StoreUnavailable):
    """Another call is under way, perhaps one that this call has interrupted."""


class NonReentrantLock:
    """A lock that refuses a signal handler at once if the interrupted thread holds the lock.

    The handler would wait for ever, and must not see a half-done change.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = Lock()
        self._owner: int | None = None

    def __enter__(self) -> Self:
        if self._owner == get_ident() or not self._lock.acquire(timeout=self._timeout):
            msg = "The store was not called: another call of this process is under way"
            raise AlreadyInCall(msg)
        self._owner = get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._lock.release()
