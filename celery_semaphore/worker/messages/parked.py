"""Pack a message for the store, and unpack it again."""

from __future__ import annotations

from dataclasses import dataclass

from kombu.utils.json import dumps, loads

from ...core.formats import FORMAT, check_format
from ...task.protocols import Fields, MessageContent
from .message import OF_THE_TRANSPORT


@dataclass(frozen=True, slots=True)
class Parked:
    """A message in the store, with its queue and, as ``way``, the queue by which it comes back."""

    queue: str
    way: str
    refusals: int  # of its task in this wait
    broker: str  # that it came from; empty: not known
    headers: Fields
    properties: Fields
    content_type: str | None
    content_encoding: str | None
    body: bytes | str


def packed(message: MessageContent, queue: str, way: str, refusals: int, broker: str = "") -> bytes:
    """Return the message for the store: all but the body as JSON, which keeps dates and bytes, a line feed, the body.

    In all formats the first line is JSON that contains the ``format`` of the whole.
    """
    body = message.body
    rest = {
        "format": FORMAT,
        "queue": queue,
        "way": way,
        "refusals": refusals,
        "broker": broker,
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
    rest.setdefault("broker", "")
    return Parked(body=body.decode() if rest.pop("text") else body, **rest)
