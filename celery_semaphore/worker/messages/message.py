"""Publish a task message again as it came, with nothing changed but ``eta`` and our header.

Celery's own functions (``retry``, ``signature_from_request``) decode and encode the message, and change it in several
places. Here body, headers and properties are passed on as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kombu.utils.json import dumps, loads

from ...core.formats import FORMAT, check_format
from ..protocols import Fields, MessageContent
from .headers import TICKET
from .route import Route

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


@dataclass(frozen=True, slots=True)
class Parked:
    """A message in the store, with its queue and, as ``way``, the queue by which it comes back."""

    queue: str
    way: str
    refusals: int  # of its task in this wait
    headers: Fields
    properties: Fields
    content_type: str | None
    content_encoding: str | None
    body: bytes | str


def packed(message: MessageContent, queue: str, way: str, refusals: int) -> bytes:
    """Return the message for the store: all but the body as JSON, which keeps dates and bytes, a line feed, the body.

    In all formats the first line is JSON that contains the ``format`` of the whole.
    """
    body = message.body
    rest = {
        "format": FORMAT,
        "queue": queue,
        "way": way,
        "refusals": refusals,
        "headers": message.headers,
        "properties": {
            name: value
            for name, value in message.properties.items()
            if name not in OF_THE_TRANSPORT or name == "expiration"
        },
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "text": isinstance(body, str),
    }
    head: str = dumps(rest)
    return head.encode() + b"\n" + (body.encode() if isinstance(body, str) else bytes(body))


def unpacked(payload: bytes) -> Parked:
    """Return what ``packed`` was given; the headers are as they came, so that they can be sent again.

    Raise ``NewerFormat`` for a message that a later release packed: this release might send only a part of it.
    """
    head, _, body = payload.partition(b"\n")
    rest = loads(head.decode())
    check_format("its message", rest.pop("format", FORMAT))
    return Parked(body=body.decode() if rest.pop("text") else body, **rest)


def publish_arguments(
    message: MessageContent, *, route: Route, header: str, delay: float
) -> Fields:
    """Return the arguments of ``Producer.publish``, so that the message comes back after ``delay`` seconds."""
    headers = _undelayed(message.headers)
    # kombu has decompressed the body already: it must be compressed again.
    compression = headers.pop("compression", None)
    # No eta without a delay: a worker with a late clock would hold the message, while a permit is reserved for it.
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
