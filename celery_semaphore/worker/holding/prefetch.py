"""Raise the worker's prefetch by one for each held message, which counts against it, as Celery does for countdowns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from math import inf

from celery.worker import state
from kombu.common import ignore_errors

from ...task.celery_types import Consumer
from ..celery_internals import (
    pool_size,
    restore_prefetch_by,
    restore_prefetch_now,
    restores_prefetch,
)
from .held_message import HeldMessage
from .queue_lengths import lengths_of
from .shutdown import ends

MAX_RAISED_MESSAGES = 10_000  # the bound if ``worker_eta_task_limit`` is not set


def restore_in_loop(c: Consumer, in_loop: Callable[[Callable[[], object]], object]) -> None:
    """Let only the event loop restore the prefetch after a lost connection, and only while the worker goes on.

    Celery does it in any thread that acknowledges, and waits there for RabbitMQ's answer. If two threads read from one
    connection, each gets parts of the other's frames, and neither gets its answer. Celery's handler of QUIT can
    interrupt a frame in the same way.
    """
    restore = restores_prefetch(c)

    def restore_now() -> None:
        if not ends():
            # If the connection is lost now, the loop notices it, and the next acknowledgement calls this again.
            ignore_errors(c, partial(restore, None))

    restore_prefetch_by(c, lambda *_: in_loop(restore_now))


class Prefetch:
    """Changes the prefetch of one connection to the broker for held messages."""

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

    def raise_for(self, held: HeldMessage) -> bool:
        """Let the broker deliver one message more for this one, unless that is one too many."""
        size, lengths = self._size(held), self._lengths
        fits = self._raised < lengths.messages - self._c.max_prefetch_count
        if fits and self._bytes + size <= lengths.bytes and self.increase():
            held.raised = True
            self._bytes += size
        return held.raised

    def raise_late(self, messages: Iterable[HeldMessage]) -> None:
        """Do that for those that were one too many when they came, as far as they are not any more.

        Otherwise a worker whose prefetch they use up would receive nothing, although its processes are free by now.
        """
        for held in messages:
            if not held.raised and not self.raise_for(held):
                return

    def lower_for(self, held: HeldMessage) -> None:
        """Undo that."""
        if held.raised:
            self.decrease()
            held.raised = False
            self._bytes -= self._size(held)

    def _size(self, held: HeldMessage) -> int:
        return len(held.request.message.body) if self._lengths.queues else 0

    def increase(self) -> bool:
        """Let the broker deliver one message more, and return whether it will."""
        if self._raised >= self._most or self._is_restrained():
            return False
        self._end_slow_start()
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

    def _end_slow_start(self) -> None:
        """Restore the full prefetch after a lost connection, before it is raised.

        Celery begins with a lower value, and raises it with each acknowledgement. It would take a value that already
        counts held messages for the full prefetch, which would fall to one when they leave.
        """
        restore_prefetch_now(self._c)
