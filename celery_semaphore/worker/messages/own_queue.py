"""Find the queue that a message came from."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Consumer
from kombu.transport.virtual.exchange import STANDARD_EXCHANGE_TYPES

from ...task.protocols import Fields
from ..celery_internals import tags_by_queue


class Unroutable(Exception):
    """The queue of this message is unknown, so it cannot be put back."""


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


def _is_bound(queue: Any, exchange: str, routing_key: str) -> bool:
    for binding in [queue, *queue.bindings]:
        kind: Any = STANDARD_EXCHANGE_TYPES.get(binding.exchange.type)
        if kind is not None and binding.exchange.name == exchange:
            entry = kind(None).prepare_bind(queue.name, exchange, binding.routing_key, None)
            if kind(None).lookup([entry], exchange, routing_key, None):
                return True
    return False
