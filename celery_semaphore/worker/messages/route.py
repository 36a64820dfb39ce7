"""Find the route of a waiting message back to the queue it came from, and to no other.

It never leads through the message's exchange: each queue that is bound there would get a copy at every wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from celery import Celery
from celery.utils.quorum_queues import detect_quorum_queues
from kombu.transport.native_delayed_delivery import (
    CELERY_DELAYED_DELIVERY_EXCHANGE,
    MAX_LEVEL,
    calculate_routing_key,
    level_name,
)


@dataclass(frozen=True, slots=True)
class Route:
    """An exchange and a routing key to publish to. ``delayed`` is the queue to bind to the broker's delays."""

    exchange: str
    routing_key: str
    delayed: str | None = None

    def prepare(self, channel: Any) -> None:
        """Bind the queue to the last exchange of the broker's delays, by a key that only this queue has."""
        if self.delayed is not None:
            channel.queue_bind(
                self.delayed, CELERY_DELAYED_DELIVERY_EXCHANGE, f"#.{_key(self.delayed)}"
            )


def route_to(app: Celery, queue: str, delay: float, driver: str) -> Route:
    """Return the route by which a message reaches this queue after ``delay`` seconds."""
    if delay >= 1 and detect_quorum_queues(app, driver)[0]:
        # With quorum queues a worker cannot raise its prefetch for messages that it keeps. So the broker keeps the
        # message for the whole seconds of the delay, and the worker keeps it for the rest.
        key = calculate_routing_key(int(delay), _key(queue))
        return Route(level_name(MAX_LEVEL), key, delayed=queue)
    return Route("", queue)


def _key(queue: str) -> str:
    """Return one word of a routing key that stands for this queue, whatever its name is."""
    return f"semaphore-{sha256(queue.encode()).hexdigest()[:32]}"
