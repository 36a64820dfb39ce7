"""Return messages to the broker, to the front of the queue that they came from.

Messages are published again only for quorum queues, which count deliveries. Otherwise there is no confirm to wait for,
and never a second message of one task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from celery.utils.quorum_queues import detect_quorum_queues
from celery.worker import state

from ...core.ticket import Ticket
from ...task.celery_types import Consumer
from ...task.protocols import TaskMessage, TaskRequest
from .kept_message import CannotKeep, KeptMessage
from .prefetch import MAX_RAISED_MESSAGES, QueueLengths, lengths_of
from .redis_redelivery import RedisRedelivery

logger = logging.getLogger(__name__)

PutBackCall = Callable[[TaskRequest, Ticket | None, float], object]  # request, ticket, delay


class Redelivery(Protocol):
    """How one kind of broker takes messages back."""

    @property
    def window(self) -> int | None:
        """The number of messages that may be kept where the prefetch cannot be raised; else None."""

    def takes(self, message: TaskMessage) -> bool:
        """Return whether the broker would redeliver this message exactly once."""

    def may_take(self, message: TaskMessage) -> bool:
        """Return the same, as far as is known without a call to the broker."""

    def give_back(self, waiting: Sequence[KeptMessage]) -> None:
        """Return all messages to the broker, such that the first one is delivered first."""


class AmqpRedelivery:
    """Returns messages to a classic queue of RabbitMQ, which puts each back where it was.

    A queue that drops its oldest messages would drop just these. There they are published again, at its end: what it
    drops for them then are messages that no worker has accepted.
    """

    window = None

    def __init__(
        self,
        errors: tuple[type[Exception], ...],
        put_back: PutBackCall,
        lengths: QueueLengths,
    ) -> None:
        self._errors = errors
        self._put_back = put_back
        self._lengths = lengths

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[KeptMessage]) -> None:
        for kept in waiting:
            message = kept.request.message
            if message.acknowledged:  # a revoke with terminate=True acknowledges it
                continue
            if self._lengths.queues and kept.request.came_from() in self._lengths.queues:
                self._put_back(kept.request, kept.ticket, 0.0)
            else:
                put_in_front([message], self._errors)


def put_in_front(messages: Sequence[TaskMessage], errors: tuple[type[Exception], ...]) -> None:
    """Return messages to where they were in their queue."""
    for message in messages:
        if not message.acknowledged:
            message.reject_log_error(logger, errors, requeue=True)


class QuorumRedelivery:
    """Publishes messages of quorum queues again, with a delay until their expected turn.

    A quorum queue counts deliveries, and drops a message after too many of them. Its prefetch cannot be raised, so half
    of it is for kept messages, and half for those that run.
    """

    def __init__(self, prefetch: int, put_back: PutBackCall) -> None:
        self.window = prefetch // 2 if prefetch else MAX_RAISED_MESSAGES
        self._put_back = put_back

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[KeptMessage]) -> None:
        for kept in waiting:
            self._put_back(kept.request, kept.ticket, max(kept.expected - time.monotonic(), 0.0))


def redelivery_of(c: Consumer, put_back: PutBackCall) -> Redelivery | None:
    """Return how the broker of this consumer takes messages back; None if no message may be kept.

    It is unknown how brokers other than Redis and RabbitMQ take messages back.
    """
    driver = c.connection.transport.driver_type
    if not _has_loop(c):
        return None
    if driver == "redis":
        return RedisRedelivery()
    if driver == "amqp" and detect_quorum_queues(c.app, driver)[0]:
        return QuorumRedelivery(c.initial_prefetch_count, put_back)
    if driver == "amqp":
        return AmqpRedelivery(c.connection_errors, put_back, lengths_of(c.app))
    return None


def _has_loop(c: Consumer) -> bool:
    """Return whether Celery's timer runs where messages are received, and not in a thread of its own."""
    return c.hub is not None or bool(getattr(c.pool, "is_green", False))


# -- may one more be kept? P1


def has_room(window: int | None, kept: int, session: str) -> bool:
    """Return whether one more may be kept even if all requests of this session that now acquire are refused."""
    if window is None:
        return True
    asking = [1 for each in state.reserved_requests if getattr(each, "session", "") == session]
    return kept + len(asking) < window


def refuse_copied(c: Consumer, redelivery: Redelivery, message: TaskMessage) -> None:
    """Raise ``CannotKeep`` if the broker would not redeliver this message exactly once; it may be asked."""
    try:
        if redelivery.takes(message):
            return
    except c.connection_errors as error:
        raise CannotKeep(repr(error)) from error
    msg = "its exchange leads to several queues"
    raise CannotKeep(msg)


def is_own(c: Consumer, message: TaskMessage) -> bool:
    """Return whether its channel's prefetch can be raised; that of granted queues is fixed."""
    return message.channel is c.task_consumer.channel
