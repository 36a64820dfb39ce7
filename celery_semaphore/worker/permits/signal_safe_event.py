"""Bell: wakes one thread, without a lock that the ringer could be interrupted in."""

from __future__ import annotations

import contextlib
import threading


class SignalSafeEvent:
    """Rung any number of times, it wakes once.

    Both calls are single steps. A signal handler may ring while its own thread does; and one that sleeps (a soft
    shutdown) in the middle of a ring holds up nobody, as it would inside a condition's or an event's lock.
    """

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def set(self) -> None:
        """Wake whoever waits, or will."""
        with contextlib.suppress(RuntimeError):  # it was rung already
            self._silent.release()

    def wait(self, timeout: float) -> bool:
        """Whether it was rung within so many seconds."""
        return self._silent.acquire(timeout=timeout)
