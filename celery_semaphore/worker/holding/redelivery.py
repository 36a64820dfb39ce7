"""Return messages to the broker, to the front of the queue that they came from.

Messages are published again only for quorum queues, which count deliveries. Otherwise there is no confirm to wait for,
and never a second message of one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from celery.utils.quorum_queues import detect_quorum_queues

from ...task.celery_types import Consumer
from ...task.protocols import TaskMessage
from .amqp_redelivery import AmqpRedelivery
from .held_message import HeldMessage
from .queue_lengths import lengths_of
from .quorum_redelivery import PutBackCall, QuorumRedelivery
from .redis_redelivery import RedisRedelivery


class Redelivery(Protocol):
    """How one kind of broker takes messages back."""

    @property
    def window(self) -> int | None:
        """The number of messages that may be held where the prefetch cannot be raised; else None."""

    def takes(self, message: TaskMessage) -> bool:
        """Return whether the broker would redeliver this message exactly once."""

    def may_take(self, message: TaskMessage) -> bool:
        """Return the same, as far as is known without a call to the broker."""

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        """Return all messages to the broker, such that the first one is delivered first."""


def redelivery_of(c: Consumer, put_back: PutBackCall) -> Redelivery | None:
    """Return how the broker of this consumer takes messages back; None if no message may be held.

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
