"""Prefetch: a held message counts against the worker's prefetch, so each raises it by one, as a countdown does."""

from __future__ import annotations

from typing import Any

MAX_RAISED_MESSAGES = 10_000  # by held messages, where ``worker_eta_task_limit`` does not say


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
