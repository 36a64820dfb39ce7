"""HeldMessage: one message that is held for a refused task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.session import HeldWait
from ...core.ticket import Ticket
from ...task.protocols import HeldRequest


@dataclass(slots=True, eq=False)
class HeldMessage:
    """One held message: its last request, and what its next request needs. Times are monotonic."""

    request: HeldRequest
    ticket: Ticket | None
    due: float  # when to run it again, unless it is granted before
    keep_until: float  # when the broker must have it back
    expected: float  # when its turn was expected at its refusal
    wait: HeldWait | None = None  # the wait its session asks for; None: the store grants it nothing
    raised: bool = False  # whether it raised the prefetch

    @property
    def acts_at(self) -> float:
        return min(self.due, self.keep_until)

    @property
    def rank(self) -> tuple[bool, Any]:
        """The sort key that puts the first in line first; messages without a ticket are in no line and come last."""
        return (True, self.due) if self.ticket is None else (False, self.ticket.rank)
