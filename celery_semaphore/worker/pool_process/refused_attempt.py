"""Refused: the exception by which a pool process returns a task without a permit to the worker's main process."""

from __future__ import annotations

from dataclasses import dataclass

from celery.exceptions import Ignore

from ...core.claim import Claim
from ...core.ticket import Ticket
from ...errors import SemaphoreError
from .destination import Destination

FAILURE = "semaphore_failure"  # attribute of an error that ends an attempt without a permit


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAttempt:
    """What the main process must know of an attempt without a permit; it is pickled, so it must be small."""

    reason: str  # a text for people
    why: str  # a ``Reason``, or one of ``Unasked``
    semaphore: str = ""  # the one that refused; empty if none has
    destination: Destination
    delay: float = 0.0  # seconds until the message must come back
    ticket: Ticket | None = None
    claims: tuple[Claim, ...] = ()  # of a wait that stands in a line; long names are cut
    left: float | None = None  # seconds of its wait_timeout
    answer_known: bool = True  # False if an acquire got no answer: it may have a permit


class Refused(Ignore):  # type: ignore[misc] # Celery ships no types
    """The task has no permit: its message must wait, or be dropped.

    ``gate.py`` raises it. Celery knows no end of its kind: it travels to the main process as a failure, with which
    Celery calls ``LimitedRequest.on_failure``, and there it ends.
    """

    def __init__(self, attempt: RefusedAttempt) -> None:
        super().__init__(attempt)  # an exception is pickled by these arguments
        self.attempt = attempt

    def __str__(self) -> str:
        return self.attempt.reason


@dataclass(frozen=True, slots=True)
class Failure:
    """The refusal that made an attempt fail."""

    semaphore: str
    why: str  # a ``Reason``

    def mark(self, error: SemaphoreError) -> SemaphoreError:
        """Return the error with this failure, for the worker's main process."""
        # Plain values, whatever pickles them.
        error.__dict__[FAILURE] = (self.semaphore, str(self.why))
        return error

    @classmethod
    def of(cls, error: BaseException) -> Failure | None:
        """Return the failure of an error that the gate has raised; None for any other."""
        marked = error.__dict__.get(FAILURE)
        return None if marked is None else cls(*marked)
