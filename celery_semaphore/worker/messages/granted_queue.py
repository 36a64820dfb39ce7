"""Name and describe the granted queue that belongs to a queue, and name a granted queue's own queue."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kombu.entity import Queue

GRANTED = ".granted"  # suffix of the short queue by which granted messages overtake a backlog
# The properties that a granted queue has in common with its queue.
SHARED = ("durable", "max_priority", "exclusive")
# After so long without a consumer the granted queue of an auto-delete queue is deleted. It is no auto-delete queue, as
# its worker ceases to consume it for a moment when it returns messages, and RabbitMQ would delete them.
LEFT_FOR_S = 86_400.0
# It has all arguments of its queue but these: they drop messages, each of which has a permit and is no longer in the
# store, or deliver them to one worker only, while others have a free process.
NOT_SHARED = {
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-message-ttl",
    "x-single-active-consumer",
}
DEAD_LETTERS, DEAD_LETTER_KEY = "x-dead-letter-exchange", "x-dead-letter-routing-key"


def granted_queue(queue: str) -> str:
    """Return the name of the queue by which this queue's parked messages come back."""
    return queue + GRANTED


def home_queue(queue: str, homes: Collection[str]) -> str:
    """Return the queue of ``homes`` that a granted queue belongs to; for any other queue, return that queue."""
    home = queue.removesuffix(GRANTED)
    return home if home in homes else queue


def queue_beside(home: Any) -> Queue:
    """Return the granted queue of this queue, to be declared."""
    arguments = {
        name: value
        for name, value in (home.queue_arguments or {}).items()
        if name not in NOT_SHARED
    }
    if (
        DEAD_LETTERS in arguments
    ):  # else they would go by the granted queue's name: no binding has it
        arguments.setdefault(DEAD_LETTER_KEY, _key_of(home))
    shared: dict[str, Any] = {name: getattr(home, name) for name in SHARED}
    if home.auto_delete:
        shared["expires"] = LEFT_FOR_S
    return Queue(granted_queue(home.name), queue_arguments=arguments, **shared)


def _key_of(home: Any) -> str:
    """Return the routing key with which Celery sends to this queue: past a direct exchange by the queue's name."""
    direct = home.exchange is None or home.exchange.type == "direct"
    return str(home.name if direct else home.routing_key or home.name)
