"""MessageId: which message of a task brought a holder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessageId:
    """The id of the message that brought the holder: of all messages that a crash may leave, one must run.

    A waiting task's message is published again before the old one is acknowledged. A process that dies in between
    leaves both. A redelivery of the message that was admitted may run once that run has died.
    """

    task: str  # the same for every message of one task, and unique to it: see ``message_id_of``
    number: str = ""  # unique to this message; empty for the one that the task's sender published
    redelivered: bool = False  # whether the broker delivered this very message before
    remember_for: float = 3600.0  # seconds for which its copies are recognised

    @property
    def is_first(self) -> bool:
        """Whether no message went before it, so that known messages belong to an earlier task of this id."""
        return not (self.number or self.redelivered)

    @property
    def task_id(self) -> str:
        """The task's id, by which the names of its holders begin: see ``task_id_of``."""
        return self.task.rsplit(":", 2)[0]
