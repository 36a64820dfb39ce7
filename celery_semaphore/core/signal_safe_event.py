"""SignalSafeEvent: wake one thread without a lock that a signal handler could find taken."""

from __future__ import annotations

import contextlib
import threading


class SignalSafeEvent:
    """An event that wakes one waiter once, however often it was set.

    Both calls are atomic. A signal handler may call ``set`` while its own thread does. If it sleeps there (a soft
    shutdown), it blocks no other thread, as it would inside the lock of a condition or an event.
    """

    unheard_since: float | None = None  # see Notice: a thread that waits always runs

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def set(self) -> None:
        """Wake the thread that waits, or the next one that will."""
        with contextlib.suppress(RuntimeError):  # it was set already
            self._silent.release()

    def wait(self, timeout: float) -> bool:
        """Wait for ``timeout`` seconds at most, clear the event, and return whether it was set."""
        return self._silent.acquire(timeout=timeout)
