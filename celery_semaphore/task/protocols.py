"""Protocols: what this library uses of Celery's tasks, their requests and their messages, which have no types.

They serve type checkers alone: at run time no object is compared with them. ``Celery``, ``Consumer`` and other classes
of Celery stand in signatures by their own names; for a type checker they are ``Any``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import Logger
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from celery import Celery
    from celery.backends.base import Backend

    from ..core.claim import Claim
    from ..core.limit import Limit
    from ..core.ticket import Ticket
    from ..core.wait_policy import OnSaturated, WaitPolicy
    from ..errors import SemaphoreError
    from ..settings import Settings

Fields = dict[str, Any]  # of a message or its delivery, by name: a sender may have written anything
Trace = Callable[..., tuple[Any, Any, float, str | None]]  # what Celery's tracer of a task is


class MessageContent(Protocol):
    """The part of a message that can be published again."""

    @property
    def body(self) -> bytes | str: ...
    @property
    def headers(self) -> Fields: ...
    @property
    def properties(self) -> Fields: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def content_encoding(self) -> str | None: ...


class TaskMessage(MessageContent, Protocol):
    """A message of a task, as kombu delivered it."""

    channel: Any  # of its transport, which has no types
    delivery_info: Fields
    delivery_tag: str  # a text only on Redis, where it is read
    acknowledged: bool

    def reject_log_error(
        self, logger: Logger, errors: tuple[type[Exception], ...], requeue: bool = False
    ) -> None:
        """Reject the message, and log an error of the connection."""


class TaskContext(Protocol):
    """``task.request``: what the process that runs a task knows of the call."""

    id: str
    hostname: str | None
    called_directly: bool
    is_eager: bool
    headers: Fields | None
    delivery_info: Fields | None


class DeclaredTask(Protocol):
    """A task class with the options that a user declared, unchecked."""

    name: str
    semaphore: Any
    limit: Any
    key: Any
    weight: Any
    on_saturated: str | None
    on_lost: str | None
    wait_timeout: float | None
    requeue_delay: float | None
    requeue_max_delay: float | None
    Strategy: Any


class TaskOptions(Protocol):
    """The checked options of a task."""

    @property
    def limits(self) -> Sequence[Limit]:
        """The limits that each call must observe."""

    def claims(
        self, args: Any, kwargs: Any, key: str | None = None, weight: int | None = None
    ) -> tuple[Claim, ...]:
        """Return the claims of this call; raise ``SemaphoreError`` if they cannot be made."""

    def plain_claims(
        self, args: Any, kwargs: Any, key: str | None, weight: int | None, *, plain: bool
    ) -> tuple[Claim, ...] | None:
        """Return the claims of this call if no function of the user's makes them; else None."""

    def policy(self, settings: Settings) -> WaitPolicy:
        """Return how a call waits."""

    def on_saturated_by(self, settings: Settings) -> OnSaturated:
        """Return what happens to a call without a permit."""

    def terminates(self, settings: Settings) -> bool:
        """Return whether a task that lost its permit is ended."""


class BoundTask(Protocol):
    """A task of an app; the last two are there only if it is limited."""

    name: str
    app: Celery
    backend: Backend
    request: TaskContext
    request_stack: Any  # of Celery, which has no types
    acks_late: bool
    ignore_result: bool
    send_events: bool
    store_errors_even_if_ignored: bool
    track_started: bool
    Request: object
    semaphore: object
    semaphore_options: TaskOptions


class TaskRequest(Protocol):
    """A request that was refused, as seen by the jobs that move its message."""

    id: str
    name: str
    holder: str
    refusals: int  # the attempts without a permit in its wait

    @property
    def semaphores(self) -> tuple[str, ...]:
        """The names of the semaphores that limit the task."""

    @property
    def message(self) -> TaskMessage:
        """The message that the broker delivered."""

    def came_from(self) -> str:
        """Return the name of its queue; raise ``Unroutable`` if that is unknown."""

    def comes_back_to(self) -> str:
        """Return the name of the queue by which it comes back with a permit; raise ``Unroutable``."""

    def may_be_moved(self) -> bool:
        """Return whether a new message would be the only one of this delivery."""

    def parks(self) -> bool:
        """Return whether the store may take the message now."""

    def on_put_back(self) -> None:
        """Acknowledge the old message: the broker has the new one."""

    def on_parked(self) -> None:
        """Acknowledge the message, which is in the store, if that takes it from no other worker."""

    def on_not_parked(self, error: SemaphoreError) -> None:
        """Note that the store has not taken the message."""

    def return_to_broker(self) -> None:
        """Return the message to the broker, because it could not be moved."""


class KeptRequest(TaskRequest, Protocol):
    """A request that was refused, as seen by the code that keeps its message and begins it again."""

    granted: bool  # whether its message was kept until it was granted
    grant: tuple[Ticket, Sequence[Claim]] | None  # ended with the task if that has no permit yet
    made_at: float
    time_start: float | None

    @property
    def is_unstarted(self) -> bool:
        """Whether no process was given the task, which has not ended either."""

    @property
    def stamped_headers(self) -> Sequence[str]:
        """The names of the headers by which a stamped task can be revoked."""

    def revoked(self) -> bool:
        """Return whether the task was revoked or has expired; store its end then."""

    def revoked_in_line(self) -> bool:
        """Return the same of a request that waits for a process, looking only where there is a reason."""

    def deliver_elsewhere(self) -> None:
        """Let the broker deliver the message again, because it cannot be run here."""

    def again(self, ticket: Ticket | None) -> KeptRequest:
        """Return a fresh request of the same message: a new holder that acquires at once, with this ticket."""
