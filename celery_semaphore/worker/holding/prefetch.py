"""Raise the worker's prefetch by one for each held message, which counts against it, as Celery does for countdowns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kombu.common import ignore_errors

from ..celery_internals import restore_prefetch_by, restore_prefetch_now, restores_prefetch
from ..celery_types import Consumer
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
        self._raised = 0

    def increase(self) -> bool:
        """Let the broker deliver one message more, and return whether it will."""
        if self._raised >= self._most:
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

    def _end_slow_start(self) -> None:
        """Restore the full prefetch after a lost connection, before it is raised.

        Celery begins with a lower value, and raises it with each acknowledgement. It would take a value that already
        counts held messages for the full prefetch, which would fall to one when they leave.
        """
        restore_prefetch_now(self._c)
