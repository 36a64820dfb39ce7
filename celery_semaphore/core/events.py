"""Announce what happens to permits, for logs, signals and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from .permit import Permit

logger = logging.getLogger("celery_semaphore")


@dataclass(frozen=True, slots=True)
class PermitReleasedEvent:
    """A holder gave its permit back; ``held`` is in seconds."""

    permit: Permit
    held: float
    task: object = None  # the task that had the permit, if known


@dataclass(frozen=True, slots=True)
class PermitLostEvent:
    """A lease ended while its holder ran; the reason is a text for people."""

    permit: Permit
    reason: str


@dataclass(frozen=True, slots=True)
class PermitRestoredEvent:
    """The store had forgotten a permit and took it back."""

    permit: Permit


Event = PermitReleasedEvent | PermitLostEvent | PermitRestoredEvent
Listener = Callable[[Event], None]


class Announcer:
    """Calls every listener, in the process and the thread where the event happened.

    That thread renews all permits, or is an event loop: a listener must not block, and must not run code of users.
    An exception of a listener is logged only.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Add a listener; it is called in the thread where the event happened."""
        self._listeners.append(listener)

    def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s", type(event).__name__)
