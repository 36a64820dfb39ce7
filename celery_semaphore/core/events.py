"""Announce what happens to permits, waits and messages, for logs, signals and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from .permit import Permit

logger = logging.getLogger("celery_semaphore")


class Loss(StrEnum):
    """Why a permit counts as lost."""

    NOT_RENEWED = "not_renewed"  # its process could not renew it for almost a lease
    ENDED = "ended"  # the store does not know it any more


class WaitEnd(StrEnum):
    """How a wait ended without a run."""

    DROPPED = "dropped"
    FAILED = "failed"  # by the policy ``fail``
    TIMED_OUT = "timed_out"
    REVOKED = "revoked"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class PermitAcquiredEvent:
    """A task got its permit, after it had ``waited``; the store took so long to answer. Both are in seconds."""

    permit: Permit
    task: str
    waited: float  # 0 if it was never refused
    took: float


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
    loss: Loss


@dataclass(frozen=True, slots=True)
class PermitRestoredEvent:
    """The store had forgotten a permit and took it back."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class AttemptRefusedEvent:
    """A task got no permit; if no store has refused it, it names all semaphores of the task."""

    semaphores: tuple[str, ...]
    task: str
    reason: str  # a ``Reason``, or one of ``Unasked``
    answered: bool = True  # False if an acquire got no answer


@dataclass(frozen=True, slots=True)
class WaitEndedEvent:
    """A wait ended without a run."""

    semaphores: tuple[str, ...]
    task: str
    how: WaitEnd


@dataclass(frozen=True, slots=True)
class CopyDroppedEvent:
    """A message was dropped, because another one of its task has run."""

    semaphores: tuple[str, ...]
    task: str


@dataclass(frozen=True, slots=True)
class MessageParkedEvent:
    """The store has the message of a waiting task."""

    semaphores: tuple[str, ...]
    task: str


@dataclass(frozen=True, slots=True)
class MessagePutBackEvent:
    """The broker has confirmed the message of a waiting task, which will come back later."""

    semaphores: tuple[str, ...]
    task: str


@dataclass(frozen=True, slots=True)
class MessageBroughtBackEvent:
    """The broker has confirmed a message that was parked."""

    semaphores: tuple[str, ...]
    task: str


@dataclass(frozen=True, slots=True)
class StoreCallEvent:
    """The store answered a call, or did not; ``took`` is in seconds."""

    operation: str
    took: float
    failed: bool


MessageEvent = MessageParkedEvent | MessagePutBackEvent | MessageBroughtBackEvent
PermitEvent = PermitAcquiredEvent | PermitReleasedEvent | PermitLostEvent | PermitRestoredEvent
Event = (
    PermitEvent
    | MessageEvent
    | AttemptRefusedEvent
    | WaitEndedEvent
    | CopyDroppedEvent
    | StoreCallEvent
)
Listener = Callable[[Event], None]


class Announcer:
    """Calls every listener, in the process and the thread where the event happened.

    That thread renews all permits, or is an event loop, and a signal handler may have interrupted it: a listener must
    not block, take no lock, and not run code of users.
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
