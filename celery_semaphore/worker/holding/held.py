"""Held: one message that is held for a task that was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.session import HeldWait
from ...core.ticket import TicketFields


@dataclass(slots=True, eq=False)
class Held:
    """One message, by its last request, and what the next one must know. Times are monotonic."""

    request: Any
    ticket: str | None
    due: float  # when to run it again, if it was not granted before
    keep_until: float  # when the broker must have it back
    expected: float  # when its turn was to be, when it was refused
    wait: HeldWait | None = None  # what its session asks for; None: the store grants nothing to it
    raised: bool = False  # whether it raised the prefetch

    @property
    def acts_at(self) -> float:
        return min(self.due, self.keep_until)

    @property
    def turn(self) -> tuple[bool, Any]:
        """Sort by this to have the first in line first; the line knows nothing of one without a ticket."""
        fields = TicketFields.parse(self.ticket)
        return (True, self.due) if fields is None else (False, fields.turn)
