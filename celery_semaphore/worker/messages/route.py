"""Find the route of a waiting message back to the queue it came from, and to no other.

It never leads through the message's exchange: each queue that is bound there would get a copy at every wait.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from celery import Celery
from celery.utils.quorum_queues import detect_quorum_queues
from kombu import Consumer
from kombu.transport.native_delayed_delivery import (
    CELERY_DELAYED_DELIVERY_EXCHANGE,
    MAX_LEVEL,
    calculate_routing_key,
    level_name,
)
from kombu.transport.virtual.exchange import STANDARD_EXCHANGE_TYPES

from ..celery_internals import tags_by_queue
from ..protocols import Fields

GRANTED = ".granted"  # suffix of the short queue by which granted messages overtake a backlog


def granted_queue(queue: str) -> str:
    """Return the name of the queue by which this queue's parked messages come back."""
    return queue + GRANTED


def home_queue(queue: str, homes: Collection[str]) -> str:
    """Return the queue of ``homes`` that a granted queue belongs to; for any other queue, return that queue."""
    home = queue.removesuffix(GRANTED)
    return home if home in homes else queue


class Unroutable(Exception):
    """The queue of this message is unknown, so it cannot be put back."""


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
        # With quorum queues a worker cannot raise its prefetch for messages that it holds. So the broker keeps the
        # message for the whole seconds of the delay, and the worker holds it for the rest.
        key = calculate_routing_key(int(delay), _key(queue))
        return Route(level_name(MAX_LEVEL), key, delayed=queue)
    return Route("", queue)


def queue_by_tag(consumer: Consumer | None, came_by: Fields) -> str | None:
    """Return the queue of the message's consumer tag; None if the broker sends no tag.

    Call it when the message arrives: a cancelled consumer forgets its tags, and a shutdown cancels consumers before
    all waiting messages are back in their queues.
    """
    if consumer is not None and (tag := came_by.get("consumer_tag")) is not None:
        for name, used in tags_by_queue(consumer).items():
            if used == tag:
                return str(name)
    return None


def queue_of(app: Celery, by_tag: str | None, came_by: Fields) -> str:
    """Return the queue that a message came from, by its ``delivery_info``; raise ``Unroutable`` if it is unknown."""
    exchange, routing_key = came_by.get("exchange"), came_by.get("routing_key") or ""
    if not exchange:
        return routing_key
    if by_tag is not None:
        return by_tag
    for queue in app.amqp.queues.consume_from.values():
        # kombu's virtual transports do not name the queue: take any queue that the exchange delivered a copy to.
        if _is_bound(queue, exchange, routing_key):
            return str(queue.name)
    msg = f"no queue of this worker is bound to exchange {exchange!r} for {routing_key!r}"
    raise Unroutable(msg)


def is_amqp(app: Celery) -> bool:
    """Return whether the broker that this app's workers consume from is RabbitMQ, or another one with AMQP."""
    return bool(app.connection_for_read().transport.driver_type == "amqp")


def is_fanout(queue: Any, exchange: str | None = None) -> bool:
    """Return whether a queue is bound to a fanout exchange; to this one, if one is given."""
    return any(
        binding.exchange.type == "fanout" and exchange in (None, binding.exchange.name)
        for binding in [queue, *queue.bindings]
        if binding.exchange is not None
    )


def came_by_fanout(app: Celery, came_by: Fields) -> bool:
    """Return whether a message came from a fanout exchange, by its ``delivery_info``."""
    if not (exchange := came_by.get("exchange")):
        return False
    return any(is_fanout(queue, exchange) for queue in app.amqp.queues.consume_from.values())


def _is_bound(queue: Any, exchange: str, routing_key: str) -> bool:
    for binding in [queue, *queue.bindings]:
        kind: Any = STANDARD_EXCHANGE_TYPES.get(binding.exchange.type)
        if kind is not None and binding.exchange.name == exchange:
            entry = kind(None).prepare_bind(queue.name, exchange, binding.routing_key, None)
            if kind(None).lookup([entry], exchange, routing_key, None):
                return True
    return False


def _key(queue: str) -> str:
    """Return one word of a routing key that stands for this queue, whatever its name is."""
    return f"semaphore-{sha256(queue.encode()).hexdigest()[:32]}"
