"""Send the events of limited tasks to monitors such as Flower and ``celery events``."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from celery.concurrency.thread import TaskPool as ThreadsPool
from celery.events.event import group_from
from celery.signals import task_revoked

from ...core.once import Once
from ...task.celery_types import CeleryRequest, Consumer
from ..limiter import Limiter

STARTED = "task-started"
# Monitors would show an event called ``task-…`` as a state of the task for ever.
SATURATED = "semaphore-saturated"
ENDS = frozenset(
    f"task-{how}" for how in ("succeeded", "failed", "retried", "rejected", "revoked", "cancelled")
)


class EventsMixin(CeleryRequest):
    """Sends ``task-started`` only when the permit is held; put it before a ``Request`` class.

    Celery sends it when a process takes the task, which is at each attempt to acquire. The main process may learn of
    a permit in any thread, and as late as at the end of the task. So the event carries the time of the acquire. The
    event loop sends it; or, right before the event of the end, the thread that sends that one. With
    ``--pool threads`` this is the thread that ran the task; a dispatcher has a lock for its connection.
    """

    _limiter: Limiter

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unstarted = Once()
        self._started_at: list[float] = []  # the time of an event that is not sent yet

    def send_event(self, type: str, **fields: object) -> None:  # noqa: A002 - Celery's name
        """Send an event as Celery does, but ``task-started`` right before the event of the end at the latest."""
        if type == STARTED:
            return
        if type in ENDS:
            self._limiter.drain()  # the note of its permit may be unread
            self._send_started()
        super().send_event(type, **fields)

    def started(self, since: float) -> None:
        """Queue ``task-started``, once; ``since`` is the monotonic time of the acquire."""
        if self._unstarted.take() and self._is_heard():  # two threads may call this
            self._started_at.append(time.time() - (time.monotonic() - since))
            self._limiter.worker.in_loop(self._send_started)

    def dropped(self) -> None:
        """Send the event and the signal of a revoked task for one that is dropped.

        Receivers of ``task_revoked`` run in the thread of our own signals, since they may block and this is the event
        loop. Celery calls them in the loop; but it revokes few tasks, and many may be dropped at once.
        """
        how = {"terminated": False, "signum": None, "expired": False}
        self.send_event("task-revoked", **how)
        if task_revoked.receivers:
            request = self._context
            send = partial(task_revoked.send, sender=self.task, request=request, **how)
            self._limiter.process.receivers.add(send)

    def _is_heard(self) -> bool:
        """Return whether events of this task are sent; otherwise waking the loop would be wasted.

        A worker without ``--task-events`` has a dispatcher that is enabled for the group ``worker`` only.
        """
        eventer = self._eventer
        if not (eventer and eventer.enabled and self.task.send_events):
            return False
        return not eventer.groups or "task" in eventer.groups

    def _send_started(self) -> None:
        try:
            timestamp = self._started_at.pop()
        except IndexError:
            return
        super().send_event(STARTED, timestamp=timestamp)


def buffer_refusals(consumer: Consumer) -> None:
    """Send events of refusals in batches, as Celery does with events of tasks: each message blocks the event loop.

    With ``--pool threads`` they are sent one by one: there the threads that run tasks send them, and before 5.7 Celery
    loses an event that one thread adds to a buffer while another thread sends it.
    """
    dispatcher = consumer.event_dispatcher
    if dispatcher is None:  # in a worker without heartbeat, gossip and events of tasks
        return
    if "task" in dispatcher.buffer_group and not isinstance(consumer.pool, ThreadsPool):
        dispatcher.buffer_group = {*dispatcher.buffer_group, group_from(SATURATED)}
