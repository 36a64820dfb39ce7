"""Lookout: learns soon after a process took a task that it has its permit, so that its early ack is not late.

The process could wake the event loop itself, but that costs more than the note did, for each task; and most
are so short that the loop is woken by their end before the ack would have mattered.

How it fails, and what then: a loop that is busy or blocked looks late, as it would acknowledge late; timers
are forgotten with a lost connection, and begin anew with the next; without a loop the releaser reads the notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SOON = 0.005  # seconds; a main process that dies within leaves a message that is delivered again


class Lookout:
    """Only the event loop's thread may use it: a hub's timers have no lock."""

    def __init__(self, drain: Callable[[], object], awaits: Callable[[str], bool]) -> None:
        self._drain = drain
        self._awaits = awaits
        self._expected: set[str] = set()
        self._due = False
        self._hub: Any = None

    def connect(self, hub: Any) -> None:
        """A loop begins, which knows none of the timers of the one before."""
        self._hub, self._due = hub, False
        self._look_later()

    def expect(self, holder: str) -> None:
        """Look for the permit of this delivery, until it has it or ended."""
        if self._hub is not None:
            self._expected.add(holder)
            self._look_later()

    def _look_later(self) -> None:
        if self._expected and not self._due:
            self._due = True
            self._hub.call_later(SOON, self._look)

    def _look(self) -> None:
        self._due = False
        self._drain()
        self._expected = {holder for holder in self._expected if self._awaits(holder)}
        self._look_later()
