"""The events of permits, waits and messages that an announcer tells its listeners."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .permit import Permit


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
    task: str = ""
    waited: float = 0.0  # 0 if it was never refused
    took: float = 0.0


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
class MessageMovedEvent:
    """The message of a waiting task was moved."""

    semaphores: tuple[str, ...]
    task: str


class MessageParkedEvent(MessageMovedEvent):
    """The store has the message of a waiting task."""

    __slots__ = ()


class MessagePutBackEvent(MessageMovedEvent):
    """The broker has confirmed the message of a waiting task, which will come back later."""

    __slots__ = ()


class MessageBroughtBackEvent(MessageMovedEvent):
    """The broker has confirmed a message that was parked."""

    __slots__ = ()


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
