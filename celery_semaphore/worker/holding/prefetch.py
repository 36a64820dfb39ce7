"""Prefetch: a held message counts against the worker's prefetch, so each raises it by one, as a countdown does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kombu.common import ignore_errors

from .shutdown import ends

MAX_RAISED_MESSAGES = 10_000  # by held messages, where ``worker_eta_task_limit`` does not say


def restore_in_loop(c: Any, in_loop: Callable[[Callable[[], object]], object]) -> None:
    """Let the event loop alone restore the prefetch after a lost connection, while the worker goes on.

    Celery does it in whichever thread acknowledges, and waits there for RabbitMQ's answer. Of two threads that read from
    one connection each gets parts of the other's frames, and then no answer comes to either. Celery's handler of QUIT
    cuts frames in two likewise.
    """
    restore = c._restore_prefetch_count_after_connection_restart  # noqa: SLF001 - no other way to it

    def restore_now() -> None:
        if not ends():
            # A connection that is lost right now is noticed by the loop, and the next acknowledgement comes here again.
            ignore_errors(c, partial(restore, None))  # type: ignore[no-untyped-call]

    c._restore_prefetch_count_after_connection_restart = lambda *_: in_loop(restore_now)  # noqa: SLF001 - as above


class Prefetch:
    """The prefetch of one connection to the broker, as far as held messages change it."""

    def __init__(self, c: Any) -> None:
        self._c = c
        self._most = c.app.conf.get("worker_eta_task_limit") or MAX_RAISED_MESSAGES
        self._raised = 0

    def increase(self) -> bool:
        """Let the broker deliver one message more; return whether it will."""
        if self._raised >= self._most:
            return False
        self._end_slow_start()
        qos = self._c.qos
        # Celery's own bound, or no prefetch at all, leaves the value as it is: to lower it later would starve the worker.
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

        Celery begins with a lower one, and raises it with each acknowledgement: a value that already counts held
        messages is taken for the full prefetch, and falls to one when they leave.
        """
        c = self._c
        with c.qos._mutex:  # noqa: SLF001 - as Celery's own step does
            if not c._maximum_prefetch_restored:  # noqa: SLF001 - no other way to know
                c.qos.value += c.max_prefetch_count - c.initial_prefetch_count
                c.initial_prefetch_count = c.max_prefetch_count
                c._maximum_prefetch_restored = True  # noqa: SLF001 - as above
