"""Refused: the exception by which a pool process returns a task without a permit to the worker's main process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from celery.exceptions import Ignore

from ...core.permit import Claim
from ...core.ticket import Ticket


class Disposition(StrEnum):
    """What the main process does with the message of a refused task."""

    HOLD_IN_LINE = "hold_in_line"  # hold it until its session is granted a permit for it
    HOLD = "hold"  # hold it, and ask again after the delay: its task stands in no line
    PARK = "park"  # move it into the store, or back into its queue if the store cannot take it
    PUBLISH = "publish"  # only a worker of a newer release can run it: P6
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAttempt:
    """What the main process must know of an attempt without a permit; it is pickled, so it must be small."""

    reason: str
    disposition: Disposition
    delay: float = 0.0  # seconds until the message must come back
    ticket: Ticket | None = None
    claims: tuple[Claim, ...] = ()  # of a wait that stands in a line; long names are cut
    left: float | None = None  # seconds of its wait_timeout
    answer_known: bool = True  # False if an acquire got no answer: it may have a permit


class Refused(Ignore):  # type: ignore[misc] # Celery ships no types
    """The task has no permit: its message must wait, or be dropped."""

    def __init__(self, attempt: RefusedAttempt) -> None:
        super().__init__(attempt)  # an exception is pickled by these arguments
        self.attempt = attempt

    def __str__(self) -> str:
        return self.attempt.reason
