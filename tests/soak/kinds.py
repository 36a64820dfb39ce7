"""The kinds of tasks that the rolling soak sends."""

from __future__ import annotations

from typing import NamedTuple

MIXED = "mixed"  # those with early acks are parked, those with late acks are requeued
WAITS = ("wait", "requeue", "park", MIXED)  # limited tasks, by how they wait: a semaphore for each
PLAIN = (
    "plain"  # the control group: Celery's own tasks, beside them in the same queues and processes
)
RESOURCES = (*WAITS, PLAIN)
ACKS = ("early", "late")


class Sent(NamedTuple):
    """A task that was sent."""

    resource: str  # where it is counted: how it waits, or that it is plain
    acks: str
    seconds: float
    at: float  # when it was sent
    delay: int = 0  # seconds for which the broker shall keep it

    @property
    def is_plain(self) -> bool:
        return self.resource == PLAIN

    @property
    def is_late(self) -> bool:
        return self.acks == "late"
