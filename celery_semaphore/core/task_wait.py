"""TaskWait: one wait of a task, as a store finds it by the id of the task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .claim import Claim
    from .snapshot import Waiter

WAITS_OF_TASK = (
    100  # waits of one task that a store returns at most; the calls of one process may have more
)


class WaitState(StrEnum):
    """The state of a wait: chapter 4 of docs/maintain/architecture.md."""

    IN_LINE = "in line"  # if its waiter is reachable; else it is about to be in transit
    SET_ASIDE = "set aside"  # its weight is above the limit in force
    IN_TRANSIT = "in transit"
    GRANTED = "granted"  # a permit is kept for it
    ENDED = "ended"  # its message is about to be sent, without a permit


@dataclass(frozen=True, slots=True)
class TaskWait:
    """One wait: where it stands, and all that it wants."""

    resource: str  # that has it in its line; it may want others, too
    claims: tuple[Claim, ...]  # a long name is cut: stores use the resource's name
    waiter: Waiter
    state: WaitState
    granted_until: float | None = None  # the store's time, if it is granted

    @property
    def began(self) -> tuple[int, str]:
        """The sort key of the waits of one task: the oldest is first."""
        return self.waiter.ticket.place, self.waiter.ticket.nonce
