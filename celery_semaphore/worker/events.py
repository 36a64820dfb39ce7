"""What monitors such as Flower and ``celery events`` hear of a limited task."""

from __future__ import annotations

import time
from typing import Any

from celery.signals import task_revoked

from .limiter import Limiter

STARTED = "task-started"
# Not ``task-…``: monitors would take it for a state of the task, and show that for ever.
SATURATED = "semaphore-saturated"
ENDS = frozenset({"task-succeeded", "task-failed", "task-retried", "task-rejected", "task-revoked"})


class EventsMixin:
    """Goes before a ``Request`` class: ``task-started`` is sent when the permit is held, not before.

    Celery sends it when a process takes the task, which is at each attempt to get a permit. Of a permit the main
    process hears in any of its threads, and perhaps only when the task ends; the event has the time of the
    acquire, is sent by the event loop, which alone may use the connection, and before the event of the end.
    """

    _limiter: Limiter

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unstarted = [True]
        self._started_at: list[float] = []  # of an event that is to be sent

    def send_event(self, type: str, **fields: Any) -> None:  # noqa: A002 - Celery's name
        """Send an event as Celery does, in the order in which monitors must hear it."""
        if type == STARTED:
            return
        if type in ENDS:
            self._limiter.drain()  # its note may be unread
            self._send_started()
        super().send_event(type, **fields)  # type: ignore[misc]

    def started(self, since: float) -> None:
        """Have ``task-started`` sent, once; ``since`` is the monotonic time of the acquire."""
        try:
            self._unstarted.pop()  # one step: two threads may come here
        except IndexError:
            return
        if getattr(self._eventer, "enabled", False):  # type: ignore[attr-defined]
            self._started_at.append(time.time() - (time.monotonic() - since))
            self._limiter.in_loop(self._send_started)

    def dropped(self) -> None:
        """Tell monitors and receivers of ``task_revoked`` of a task that ends unrun, as of one that is revoked."""
        how = {"terminated": False, "signum": None, "expired": False}
        self.send_event("task-revoked", **how)
        request = self._context  # type: ignore[attr-defined]
        task_revoked.send(sender=self.task, request=request, **how)  # type: ignore[attr-defined]

    def _send_started(self) -> None:
        try:
            timestamp = self._started_at.pop()
        except IndexError:
            return
        super().send_event(STARTED, timestamp=timestamp)  # type: ignore[misc]
