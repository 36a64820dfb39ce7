"""Lookout: learns soon after a process took a task that it has its permit, so that its early ack is not late.

The process could wake the event loop itself, but that costs more than the note did, for each task; and most
are so short that the loop is woken by their end before the ack would have mattered. One look is for all.

How it fails, and what then: a loop that is busy or blocked looks late, as it would acknowledge late; where timers
are forgotten with a lost connection, the next one begins anew; without a loop the releaser reads the notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SOON = 0.005  # seconds; a main process that dies within leaves a message that is delivered again
LATEST = 0.08  # seconds between looks for whom a slow store keeps waiting


class Lookout:
    """Looks by timers of the event loop.

    That one's thread uses it, and at a shutdown also the one in which Celery goes on with the timers.
    """

    def __init__(self, look: Callable[[], object], awaits: Callable[[str], bool]) -> None:
        self._look_now = look
        self._awaits = awaits
        self._expected: set[str] = set()
        self._pause = SOON
        self._timer: Any = None
        self._hub: Any = None

    def connect(self, hub: Any) -> None:
        """A loop begins; some Celery keeps the timers of the one before, and some does not."""
        self._hub = hub
        self._look_in(SOON)

    def expect(self, holder: str) -> None:
        """Look for the permit of this delivery, until it has it or ended."""
        if self._hub is None or not self._awaits(holder):
            return
        self._expected.add(holder)
        if self._timer is None or self._pause > SOON:
            self._look_in(SOON)

    def _look_in(self, pause: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._pause, self._timer = pause, None
        if self._expected:
            self._timer = self._hub.call_later(pause, self._look)

    def _look(self) -> None:
        self._timer = None
        self._look_now()
        for holder in tuple(self._expected):  # another thread may add one meanwhile
            if not self._awaits(holder):
                self._expected.discard(holder)
        self._look_in(min(2 * self._pause, LATEST))
