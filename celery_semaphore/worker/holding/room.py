"""Find out whether one more message may be held: P2 to P5."""

from __future__ import annotations

import logging

from celery.worker import state

from ..celery_types import Consumer
from ..protocols import TaskMessage
from .redelivery import Redelivery

logger = logging.getLogger(__name__)


def has_room(window: int | None, held: int, session: str) -> bool:
    """Return whether one more may be held even if all requests of this session that now acquire are refused."""
    if window is None:
        return True
    asking = [1 for each in state.reserved_requests if getattr(each, "session", "") == session]
    return held + len(asking) < window


def is_taken(c: Consumer, redelivery: Redelivery | None, message: TaskMessage) -> bool:
    """Return whether the broker would take the message back."""
    if redelivery is None or not is_own(c, message):
        return False
    try:
        return redelivery.takes(message)
    except c.connection_errors as error:
        logger.warning("a waiting task is published again, not held: %r", error)
        return False


def is_own(c: Consumer, message: TaskMessage) -> bool:
    """Return whether its channel's prefetch can be raised; that of granted queues is fixed: P5."""
    return message.channel is c.task_consumer.channel
