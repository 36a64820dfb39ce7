"""Find out whether a queue or a message belongs to a fanout exchange."""

from __future__ import annotations

from typing import Any

from celery import Celery

from ...task.protocols import Fields


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
