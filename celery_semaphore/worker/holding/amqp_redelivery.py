"""AmqpRedelivery: return held messages to a classic queue of RabbitMQ."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..protocols import TaskMessage
from .held_message import HeldMessage

logger = logging.getLogger(__name__)


class AmqpRedelivery:
    """Returns messages to a classic queue of RabbitMQ, which puts each back where it was."""

    window = None

    def __init__(self, errors: tuple[type[Exception], ...]) -> None:
        self._errors = errors

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        self.put_in_front([held.request.message for held in waiting])

    def put_in_front(self, messages: Sequence[TaskMessage]) -> None:
        for message in messages:
            if not message.acknowledged:  # a revoke with terminate=True acknowledges it
                message.reject_log_error(logger, self._errors, requeue=True)
