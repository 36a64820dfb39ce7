"""What monitors such as Flower and ``celery events`` hear of a limited task."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from celery.concurrency.thread import TaskPool as ThreadsPool
from celery.events.event import group_from
from celery.signals import task_revoked

from ..limiter import Limiter

STARTED = "task-started"
# Not ``task-…``: monitors would take it for a state of the task, and show that for ever.
SATURATED = "semaphore-saturated"
ENDS = frozenset(
    f"task-{how}" for how in ("succeeded", "failed", "retried", "rejected", "revoked", "cancelled")
)


class EventsMixin:
    """Goes before a ``Request`` class: ``task-started`` is sent when the permit is held, not before.

    Celery sends it when a process takes the task, which is at each attempt to get a permit. Of a permit the main
    process hears in any of its threads, and perhaps only when the task ends. The event has the time of the
    acquire. The event loop sends it, or the thread that sends the event of the end, right before that: with
    ``--pool threads`` Celery does this in the thread that ran the task (a dispatcher has a lock for its connection).
    """

    _limiter: Limiter
    task: Any

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
        if self._is_heard():
            self._started_at.append(time.time() - (time.monotonic() - since))
            self._limiter.in_loop(self._send_started)

    def dropped(self) -> None:
        """Tell monitors and receivers of ``task_revoked`` of a task that ends unrun, as of one that is revoked.

        Receivers run where those of our signals do: they may wait, to give a lock back, say, and this is the event
        loop. Celery sends the signal from there; but it revokes few tasks, and a crowd may be dropped at once.
        """
        how = {"terminated": False, "signum": None, "expired": False}
        self.send_event("task-revoked", **how)
        if task_revoked.receivers:
            request = self._context  # type: ignore[attr-defined]
            send = partial(task_revoked.send, sender=self.task, request=request, **how)
            self._limiter.process.receivers.add(send)

    def _is_heard(self) -> bool:
        """Whether events of this task are sent: nothing else pays for a call into the loop, which it wakes.

        A worker without ``--task-events`` has a dispatcher that is enabled, for the group ``worker``.
        """
        eventer = self._eventer  # type: ignore[attr-defined]
        if not (eventer and eventer.enabled and self.task.send_events):
            return False
        return not eventer.groups or "task" in eventer.groups

    def _send_started(self) -> None:
        try:
            timestamp = self._started_at.pop()
        except IndexError:
            return
        super().send_event(STARTED, timestamp=timestamp)  # type: ignore[misc]


def buffer_refusals(consumer: Any) -> None:
    """Have events of refusals sent many at once, as Celery sends those of tasks: each message blocks the event loop.

    Not with ``--pool threads``: there the threads that run tasks send them, not the loop, and before 5.7 Celery
    loses what one thread adds to a buffer while another one sends it.
    """
    dispatcher = consumer.event_dispatcher
    if dispatcher is None:  # a worker without heartbeat and gossip, unless it sends events of tasks
        return
    if "task" in dispatcher.buffer_group and not isinstance(consumer.pool, ThreadsPool):
        dispatcher.buffer_group = {*dispatcher.buffer_group, group_from(SATURATED)}
