"""QueueLengths: know which classic queues of RabbitMQ drop their oldest messages when they grow too long.

An unacknowledged message does not count towards the length, a returned one does; and what returns to the front is the
oldest. So a worker that held more than the length would lose tasks that it had accepted, at each shutdown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from ..messages.broker import is_amqp

DROPS_OLDEST = "drop-head"  # RabbitMQ's default


@dataclass(frozen=True, slots=True)
class QueueLengths:
    """What the worker may hold beside its prefetch: the least that a queue of such a kind takes back."""

    queues: frozenset[str] = frozenset()
    messages: float = inf
    bytes: float = inf  # of their bodies


def lengths_of(app: Any) -> QueueLengths:
    """Return the lengths that the app declares for what this worker consumes; those of a policy cannot be seen."""
    if not is_amqp(app):
        return QueueLengths()
    arguments = {
        name: queue.queue_arguments or {} for name, queue in app.amqp.queues.consume_from.items()
    }
    found = {name: has for name, has in arguments.items() if _drops(has)}
    return QueueLengths(
        frozenset(found),
        min((has.get("x-max-length", inf) for has in found.values()), default=inf),
        min((has.get("x-max-length-bytes", inf) for has in found.values()), default=inf),
    )


def _drops(arguments: dict[str, Any]) -> bool:
    bounded = "x-max-length" in arguments or "x-max-length-bytes" in arguments
    return bounded and arguments.get("x-overflow", DROPS_OLDEST) == DROPS_OLDEST


def length_warnings(app: Any) -> Iterator[str]:
    """Yield a warning of each such queue."""
    for name in sorted(lengths_of(app).queues):
        yield (
            f"queue {name!r} drops its oldest messages when it is full: a waiting task that goes back to it, as at each"
            " shutdown, may push out others. The worker holds no more than the length; x-overflow=reject-publish"
            " drops nothing that was accepted."
        )
