"""AmqpRedelivery: return held messages to a classic queue of RabbitMQ."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...task.protocols import TaskMessage
from .held_message import HeldMessage
from .queue_lengths import QueueLengths
from .quorum_redelivery import PutBackCall

logger = logging.getLogger(__name__)


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
        lengths: QueueLengths = QueueLengths(),  # noqa: B008 - it is frozen
    ) -> None:
        self._errors = errors
        self._put_back = put_back
        self._lengths = lengths

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        for held in waiting:
            message = held.request.message
            if message.acknowledged:  # a revoke with terminate=True acknowledges it
                continue
            if self._lengths.queues and held.request.came_from() in self._lengths.queues:
                self._put_back(held.request, held.ticket, 0.0)
            else:
                put_in_front([message], self._errors)


def put_in_front(messages: Sequence[TaskMessage], errors: tuple[type[Exception], ...]) -> None:
    """Return messages to where they were in their queue."""
    for message in messages:
        if not message.acknowledged:
            message.reject_log_error(logger, errors, requeue=True)
