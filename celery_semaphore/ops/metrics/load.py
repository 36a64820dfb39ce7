"""Count what lies in queues, and what workers run and have prefetched of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...worker.celery_internals import unacknowledged_on_redis
from ...worker.main_process.load import COMMAND
from ...worker.messages.broker import connected
from ...worker.messages.granted_queue import granted_queue
from ..control import broadcast

ANSWER_S = 1.0  # to wait for the workers
BROKER_S = 5.0  # for each answer of the broker
NOT_FOUND = "404"  # the code of AMQP, which kombu's other transports raise as a text


@dataclass(frozen=True, slots=True)
class Load:
    """What workers have of one queue."""

    running: int = 0
    prefetched: int = 0
    scheduled: int = 0  # tasks that wait for their eta

    def __add__(self, other: Load) -> Load:
        return Load(
            self.running + other.running,
            self.prefetched + other.prefetched,
            self.scheduled + other.scheduled,
        )


def loads_of_workers(app: Any) -> dict[str, Load]:
    """Return what all workers have of each queue that they consume, by one broadcast."""
    loads: dict[str, Load] = {}
    for _, answer in broadcast(app, ANSWER_S, COMMAND):
        for queue, counts in answer.get("queues", {}).items():
            loads[queue] = loads.get(queue, Load()) + Load(*counts)
    return loads


def ready_in(app: Any, queues: Collection[str]) -> dict[str, int]:
    """Return how many messages are ready in each queue and its granted queue; none for one that does not exist.

    On Redis a queue without messages does not exist.
    """
    with connected(app, BROKER_S) as connection:
        both = {name for queue in queues for name in (queue, granted_queue(queue))}
        found = dict(_counted(connection, both))
    return {
        queue: found.get(queue, 0) + found.get(granted_queue(queue), 0)
        for queue in queues
        if queue in found or granted_queue(queue) in found
    }


def unacknowledged(app: Any) -> int:
    """Return how many messages of all queues workers had when they were killed, or have; 0 if the broker keeps none.

    On Redis these lie outside of the queues until a worker that lives restores them. RabbitMQ does that by itself.
    """
    with connected(app, BROKER_S) as connection:
        return unacknowledged_on_redis(connection.channel())


def _counted(connection: Any, queues: Iterable[str]) -> Iterator[tuple[str, int]]:
    channel = connection.channel()
    for queue in queues:
        try:
            yield queue, channel.queue_declare(queue, passive=True).message_count
        except connection.channel_errors as error:
            if str(getattr(error, "reply_code", "")) != NOT_FOUND:
                raise
            channel = (
                connection.channel()
            )  # RabbitMQ closes a channel that asked for an unknown queue
