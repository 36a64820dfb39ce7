"""Try whether a worker may declare and read a granted queue.

A refusal closes the channel, and Celery would end or restart the worker for it. So it is tried on a connection of its
own, before the worker's own consumer declares the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kombu.entity import Queue

from ..celery_types import Consumer
from ..messages.broker import is_amqp

logger = logging.getLogger(__name__)


def permitted(c: Consumer, queues: Iterable[Queue]) -> list[Queue]:
    """Return those of these granted queues that the worker may consume; warn of each other one."""
    with c.connection.clone() as connection:
        return [queue for queue in queues if queue.exclusive or _may_have(c, connection, queue)]


def _may_have(c: Consumer, connection: Any, queue: Queue) -> bool:
    try:
        _try(connection, queue, reads=is_amqp(c.app))
    except connection.channel_errors as error:
        logger.warning(
            "no granted queue %r (%s): parked tasks come back by their own queue, behind what waits there; on RabbitMQ"
            " the worker's user needs the rights to configure and read .*\\.granted",
            queue.name,
            error,
        )
        return False
    return True


def _try(connection: Any, queue: Queue, *, reads: bool) -> None:
    """Declare the queue, and read from it; what is read goes back to its place with the channel."""
    with connection.channel() as channel:
        bound = queue(channel)
        bound.declare()
        if reads:  # Redis needs no other right for it
            bound.get(no_ack=False)
