"""Delivery: one delivery that asked for a permit, and the request that watches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ...core.claim import Claim
from ...core.once import Once
from ...core.permit import Permit
from ...task.protocols import BoundTask


class Watcher(Protocol):
    """A request that must act when its delivery gets or loses its permit."""

    @property
    def task(self) -> BoundTask:
        """The task of the delivery."""

    def permit_held(self, since: float) -> None:
        """Handle the note of a permit, acquired at this monotonic time: the message may be acknowledged."""

    def permit_lost(self, reason: str) -> None:
        """Handle the end of the lease while the task runs."""


@dataclass(slots=True)
class Delivery:
    """One delivery that asked for a permit."""

    holder: str
    claims: tuple[Claim, ...]
    permit: Permit | None = None
    since: float = 0.0  # monotonic time before the permit was acquired
    over: bool = False  # its process noted that the body has ended
    released: bool = False  # by the process that ran the task
    told: bool = False  # the watcher knows of the permit
    task: BoundTask | None = None  # the watcher's, once it is notified
    name: str = ""  # of the task, once the permit is noted
    # Taken by the thread that announces the permit: a note may be entered twice, also by a signal handler.
    unannounced: Once = field(default_factory=Once)
