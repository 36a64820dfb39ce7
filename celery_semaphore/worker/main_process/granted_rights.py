"""Try whether a worker can declare and read a granted queue.

A refusal closes the channel, and Celery would end or restart the worker for it. So it is tried on a connection of its
own, before the worker's own consumer declares the queue. RabbitMQ refuses for one of two reasons: the user lacks a
right, or the arguments of the queue were changed and its granted queue, of which the user may not know, has the old
ones. The worker does not use the old one: its arguments may drop what comes by it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kombu.entity import Queue

from ...task.celery_types import Consumer
from ..messages.broker import bounded, is_amqp

logger = logging.getLogger(__name__)

PRECONDITION_FAILED = 406
ANSWER_S = 5.0  # for each answer of the broker: the event loop waits for it


def permitted(c: Consumer, queues: Iterable[Queue]) -> list[Queue]:
    """Return those of these granted queues that the worker may consume; warn of each other one."""
    with bounded(c.connection, ANSWER_S) as connection:
        return [queue for queue in queues if queue.exclusive or _may_have(c, connection, queue)]


def _may_have(c: Consumer, connection: Any, queue: Queue) -> bool:
    try:
        _try(connection, queue, reads=is_amqp(c.app))
    except connection.channel_errors as error:
        logger.warning(
            "no granted queue %r (%s): parked tasks come back through their own queue, behind its backlog; %s",
            queue.name,
            error,
            _advice(connection, queue, error),
        )
        return False
    return True


def _advice(connection: Any, queue: Queue, error: Any) -> str:
    if getattr(error, "code", None) != PRECONDITION_FAILED:
        return "on RabbitMQ the worker's user needs the rights to configure and read .*\\.granted"
    return (
        "the arguments of its queue have changed since it was declared: once no worker consumes it any more, delete it by"
        f" `rabbitmqctl delete_queue --if-empty -p {connection.virtual_host} {queue.name}`, and restart the workers"
    )


def _try(connection: Any, queue: Queue, *, reads: bool) -> None:
    """Declare the queue, and read from it; what is read goes back into its queue with the channel."""
    with connection.channel() as channel:
        bound = queue(channel)
        bound.declare()
        if reads:  # Redis needs no other right for it
            bound.get(no_ack=False)
