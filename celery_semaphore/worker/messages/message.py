"""Publish a task message again as it came, with nothing changed but ``eta`` and our header.

Celery's own functions (``retry``, ``signature_from_request``) decode and encode the message, and change it in several
places. Here body, headers and properties are passed on as they are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ...task.protocols import Fields, MessageContent
from .route import Route
from .ticket_header import TICKET

# Properties that the transport sets on each message that it publishes; all others are kept as they are.
OF_THE_TRANSPORT = {
    "application_headers",
    "body_encoding",
    "content_encoding",
    "content_type",
    "delivery_info",
    "delivery_tag",
    "expiration",  # given in another unit
}


def publish_arguments(
    message: MessageContent, *, route: Route, header: str, delay: float
) -> Fields:
    """Return the arguments of ``Producer.publish``, so that the message comes back after ``delay`` seconds."""
    headers = _undelayed(message.headers)
    # kombu has decompressed the body already: it must be compressed again.
    compression = headers.pop("compression", None)
    # No eta without a delay: a worker with a late clock would keep the message, while a permit is reserved for it.
    due = datetime.now(UTC) + timedelta(seconds=delay)
    headers["eta"] = due.isoformat() if delay > 0 else None
    headers[TICKET] = header
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
        "exchange": route.exchange,
        "routing_key": route.routing_key,
    }


def _undelayed(headers: Fields) -> Fields:
    """Return the headers without those that RabbitMQ added during a delay.

    RabbitMQ would take the next delay for a cycle of dead letters, and drop the message.
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


def _is_delay(queue: object) -> bool:
    return str(queue).startswith("celery_delayed_")
