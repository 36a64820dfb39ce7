"""Find out whether one more message may be kept: P1."""

from __future__ import annotations

from celery.worker import state

from ...task.celery_types import Consumer
from ...task.protocols import TaskMessage
from .redelivery import Redelivery


class CannotKeep(Exception):
    """The message cannot be kept after all: it is published."""


def has_room(window: int | None, held: int, session: str) -> bool:
    """Return whether one more may be held even if all requests of this session that now acquire are refused."""
    if window is None:
        return True
    asking = [1 for each in state.reserved_requests if getattr(each, "session", "") == session]
    return held + len(asking) < window


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
