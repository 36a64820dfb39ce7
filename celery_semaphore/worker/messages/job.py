"""Define the jobs that a scheduler runs."""

from __future__ import annotations

from typing import Protocol

from ...errors import SemaphoreError


class RetryLater(Exception):
    """The job was not tried, and need not be retried for ``left`` seconds."""

    def __init__(self, why: str, left: float) -> None:
        super().__init__(why)
        self.left = left


class CannotPark(Exception):
    """The store cannot take a message, and a repetition would change nothing: the mover decides what follows."""

    def __init__(self, error: SemaphoreError | None) -> None:
        super().__init__(str(error))
        self.error = error  # None: the worker does not park there any more, and has said so


class Job(Protocol):
    """A unit of work that may fail for a while."""

    urgent: bool  # runs before jobs that are not urgent

    @property
    def name(self) -> str:
        """The name of the job, for the log."""

    def run(self) -> None:
        """Do the work; called again after any exception but ``CannotPark``, soon or not (``RetryLater``)."""

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """Return whether to retry after this error, ``tried_for`` seconds after the first attempt."""

    def on_give_up(self) -> None:
        """Clean up after the job has failed for too long."""
