"""Raise the worker's prefetch by one for each kept message, which counts against it, as Celery does for countdowns.

It is not raised beyond the length of a classic queue of RabbitMQ that drops its oldest messages when it grows too long.
An unacknowledged message does not count towards the length, a returned one does; and what returns to the front is the
oldest. So a worker that kept more than the length would lose tasks that it had accepted, at each shutdown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from celery.worker import state
from kombu.common import ignore_errors

from ...task.celery_types import Consumer
from ..celery_internals import (
    pool_size,
    restore_prefetch_by,
    restore_prefetch_now,
    restores_prefetch,
    shuts_down,
)
from ..messages.broker import is_amqp
from .kept_message import KeptMessage

MAX_RAISED_MESSAGES = 10_000  # the bound if ``worker_eta_task_limit`` is not set
DROPS_OLDEST = "drop-head"  # RabbitMQ's default


def restore_in_loop(c: Consumer, in_loop: Callable[[Callable[[], object]], object]) -> None:
    """Let only the event loop restore the prefetch after a lost connection, and only while the worker goes on.

    Celery does it in any thread that acknowledges, and waits there for RabbitMQ's answer. If two threads read from one
    connection, each gets parts of the other's frames, and neither gets its answer. Celery's handler of QUIT can
    interrupt a frame in the same way.
    """
    restore = restores_prefetch(c)

    def restore_now() -> None:
        if not shuts_down():
            # If the connection is lost now, the loop notices it, and the next acknowledgement calls this again.
            ignore_errors(c, partial(restore, None))

    restore_prefetch_by(c, lambda *_: in_loop(restore_now))


class Prefetch:
    """Changes the prefetch of one connection to the broker for kept messages."""

    def __init__(self, c: Consumer) -> None:
        self._c = c
        self._most = c.app.conf.get("worker_eta_task_limit") or MAX_RAISED_MESSAGES
        self._lengths = lengths_of(c.app)
        self._raised = self._bytes = 0
        self._fewer, self._fewer_until = inf, 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether a message that goes back may push out others."""
        return bool(self._lengths.queues)

    def restrain(self, most: int, seconds: float) -> None:
        """Raise it by no more than this for so many seconds, but for a free process."""
        self._fewer, self._fewer_until = most, time.monotonic() + seconds

    def tell(self) -> None:
        """Tell the broker now, not at the end of this turn: it would deliver again what is given back before that."""
        ignore_errors(self._c, self._c.qos.update)

    def raise_for(self, kept: KeptMessage) -> bool:
        """Let the broker deliver one message more for this one, unless that is one too many."""
        size, lengths = self._size(kept), self._lengths
        fits = self._raised < lengths.messages - self._c.max_prefetch_count
        if fits and self._bytes + size <= lengths.bytes and self.increase():
            kept.raised = True
            self._bytes += size
        return kept.raised

    def raise_late(self, messages: Iterable[KeptMessage]) -> None:
        """Do that for those that were one too many when they came, as far as they are not any more.

        Otherwise a worker whose prefetch they use up would receive nothing, although its processes are free by now.
        """
        for kept in messages:
            if not kept.raised and not self.raise_for(kept):
                return

    def lower_for(self, kept: KeptMessage) -> None:
        """Undo that."""
        if kept.raised:
            self.decrease()
            kept.raised = False
            self._bytes -= self._size(kept)

    def _size(self, kept: KeptMessage) -> int:
        return len(kept.request.message.body) if self._lengths.queues else 0

    def increase(self) -> bool:
        """Let the broker deliver one message more, and return whether it will."""
        if self._raised >= self._most or self._is_restrained():
            return False
        # After a lost connection Celery begins with a lower value, and raises it with each acknowledgement. It would
        # take a value that already counts kept messages for the full one, which would fall to one when they leave.
        restore_prefetch_now(self._c)
        qos = self._c.qos
        # Celery's own bound, or a prefetch of 0, leaves the value unchanged: lowering it later would starve the worker.
        before = qos.value
        if qos.increment_eventually() == before:
            return False
        self._raised += 1
        return True

    def decrease(self) -> None:
        """Undo one increase."""
        self._raised -= 1
        self._c.qos.decrement_eventually()

    def _is_restrained(self) -> bool:
        """Return whether the worker has enough to wait for, and no process for other tasks.

        With a free process it must receive on: tasks without a limit may be next in its queue.
        """
        if self._raised < self._fewer or time.monotonic() >= self._fewer_until:
            return False
        return len(state.reserved_requests) >= pool_size(self._c.pool)


@dataclass(frozen=True, slots=True)
class QueueLengths:
    """What the worker may keep beside its prefetch: the least that a queue of such a kind takes back."""

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
            " shutdown, may push out others. The worker keeps no more than the length; x-overflow=reject-publish"
            " drops nothing that was accepted."
        )
