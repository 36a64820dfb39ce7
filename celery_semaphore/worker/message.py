"""A task message as it came: publish it again with nothing changed but ``eta`` and our header.

Celery's own ways (``retry``, ``signature_from_request``) decode and encode the message again and
change it in several places; here body, headers and properties are passed on as they are.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.utils.quorum_queues import detect_quorum_queues
from kombu.transport.native_delayed_delivery import calculate_routing_key

from .headers import TICKET

# What the transport itself sets on each publication; every other property is kept as it is.
OF_THE_TRANSPORT = {
    "application_headers",
    "body_encoding",
    "content_encoding",
    "content_type",
    "delivery_info",
    "delivery_tag",
    "expiration",  # given in another unit
}
_DELAYED = re.compile(r"^(?:[01]\.){28}")  # what a broker-kept delay puts before the routing key


class Unroutable(Exception):
    """It is not known where this message came from, so it cannot be put back there."""


def publication(
    app: Any, message: Any, *, ticket: str, delay: float, driver: str
) -> dict[str, Any]:
    """What to give to ``Producer.publish`` so that the message comes back after ``delay`` seconds.

    ``driver`` is the broker's kind as kombu names it ("amqp", "redis", ...). Raises ``Unroutable``.
    """
    headers = _undelayed(message.headers)
    # The body that kombu hands out is decompressed already: it must be compressed again.
    compression = headers.pop("compression", None)
    headers["eta"] = (datetime.now(UTC) + timedelta(seconds=delay)).isoformat()
    headers[TICKET] = ticket
    properties = message.properties
    kept = {
        name: value
        for name, value in properties.items()
        if value is not None and name not in OF_THE_TRANSPORT
    }
    if (expiration := properties.get("expiration")) is not None:
        kept["expiration"] = float(expiration) / 1000  # milliseconds as text; publish takes seconds
    return {
        "body": message.body,
        "headers": headers,
        "compression": compression,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        **kept,
        **_route(app, message.delivery_info, delay, driver),
    }


def _undelayed(headers: dict[str, Any]) -> dict[str, Any]:
    """Without what RabbitMQ noted while it kept a delay.

    It would take the next delay for a cycle of dead letters, and drop the message.
    """
    headers = dict(headers)
    deaths = headers.pop("x-death", None) or []
    if others := [death for death in deaths if not _is_delay(death.get("queue"))]:
        headers["x-death"] = others
    for which in ("first", "last"):
        if _is_delay(headers.get(f"x-{which}-death-queue")):
            for what in ("queue", "exchange", "reason"):
                headers.pop(f"x-{which}-death-{what}", None)
    return headers


def _is_delay(queue: Any) -> bool:
    return str(queue).startswith("celery_delayed_")


def _route(app: Any, came_by: dict[str, Any], delay: float, driver: str) -> dict[str, Any]:
    """The exchange and routing key it came by, and what must be declared before."""
    exchange = came_by.get("exchange") or ""
    routing_key = _DELAYED.sub("", came_by.get("routing_key") or "")
    if not exchange:
        return {"exchange": "", "routing_key": routing_key}
    queue = _queue_of(app, exchange, routing_key)
    if queue is None:
        if driver != "amqp":
            # An exchange that was not declared on this connection counts as a direct one in kombu's
            # virtual transports, and drops what it does not know silently.
            msg = f"no queue of this worker is bound to exchange {exchange!r}"
            raise Unroutable(msg)
        return {"exchange": exchange, "routing_key": routing_key}
    if queue.exchange.type == "fanout":
        # Through the exchange, every worker would get a copy.
        return {"exchange": "", "routing_key": queue.name, "declare": [queue]}
    if delay >= 1 and queue.exchange.type == "topic" and detect_quorum_queues(app, driver)[0]:
        # Quorum queues cannot raise the prefetch for messages that a worker holds: the broker keeps
        # the delay, in whole seconds. The worker holds what is left of it.
        key = calculate_routing_key(int(delay), routing_key)
        return {"exchange": "celery_delayed_27", "routing_key": key}
    return {"exchange": queue.exchange, "routing_key": routing_key, "declare": [queue]}


def _queue_of(app: Any, exchange: str, routing_key: str) -> Any:
    queues = app.amqp.queues.consume_from.values()
    # A message whose delay the broker kept comes by an exchange of that delay, not by its own.
    bound = [
        q for q in queues if q.exchange.name == exchange or exchange.startswith("celery_delayed")
    ]
    same = [q for q in bound if q.routing_key == routing_key]
    return (same or bound or [None])[0]
