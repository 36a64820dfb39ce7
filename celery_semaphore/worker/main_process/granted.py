"""Consume the granted queues, by which parked messages come back; each belongs to a queue that the worker consumes.

A message that comes by a granted queue has a permit, so it waits for a process only. These queues have a channel of
their own: otherwise other messages could use up the prefetch. Their requests go to the front of the pool's line.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from celery.worker import state
from kombu.common import ignore_errors

from ...task.celery_types import Consumer
from ...task.protocols import TaskMessage
from ..celery_internals import paces_by, pool_size, shuts_down_cold
from ..keeping.pool_line import goes_first
from ..limiter import Limiter
from ..messages.broker import is_amqp
from ..messages.granted_queue import granted_queue, home_queue, queue_beside
from .granted_rights import permitted
from .unstarted_messages import UnstartedMessages, unstarted_of


class GrantedQueues:
    """Consumes the granted queues of one worker, also for queues that it adds or cancels while it runs."""

    def __init__(self, c: Consumer, limiter: Limiter) -> None:
        self._c = c
        self._limiter = limiter
        self._own: Any = None  # the consumer with a channel of its own
        self._unstarted: UnstartedMessages | None = None  # what that one has received
        # Celery has no signal for an added or a cancelled queue.
        self._add, c.add_task_queue = c.add_task_queue, self.add
        self._remove, c.cancel_task_queue = c.cancel_task_queue, self.remove
        # It paid when it came first. In the bucket it would wait behind tasks that were never tried, its permit idle.
        paces_by(c, lambda request: getattr(request, "by_granted_queue", False))

    def connect(self) -> None:
        """Add the granted queues to a consumer; called at each connection, before the loop consumes."""
        c, homes = self._c, dict(self._c.app.amqp.queues.consume_from)
        # A queue of that name that the worker consumes already is the user's own.
        wanted = {
            name: queue_beside(home)
            for name, home in homes.items()
            if granted_queue(name) not in homes
        }
        allowed = permitted(c, wanted.values())
        self._limiter.worker.homes = frozenset(
            name for name, queue in wanted.items() if queue in allowed
        )
        # A loop without a hub does not call consume(): there the worker's own consumer has the granted queues, too.
        self._own = None if c.hub is None else _consumer(c)
        self._unstarted = unstarted_of(c, self._limiter, self._own)
        for queue in allowed:
            self._consumer.add_queue(queue)

    def consume(self) -> None:
        """Start to consume, now that the loop is ready for messages."""
        self._handle = self._c.create_task_handler()
        self._own.on_message = self._received
        self._own.consume()

    def cancel(self) -> None:
        """Receive no more messages; delivered ones can still be acknowledged.

        A cold shutdown skips this for RabbitMQ: each answer takes time, and a supervisor kills a slow worker. The
        channel ends with its connection, and RabbitMQ redelivers what was not acknowledged. A failed cancel is not
        repeated: after a cold shutdown interrupted a frame, RabbitMQ would never answer.
        """
        if self._own is not None and not (shuts_down_cold() and is_amqp(self._c.app)):
            ignore_errors(self._c, self._own.cancel)

    def leave(self, *, ends: bool) -> None:
        """Give back what no process has begun, if the worker ends; a lost connection has lost it."""
        if self._unstarted is not None and ends:
            self._unstarted.give_back_all()
        elif self._unstarted is not None:
            self._unstarted.forget()

    def add(self, queue: str, *args: object, **options: object) -> None:
        """Consume one more queue, and its granted queue."""
        self._add(queue, *args, **options)
        queues, limiter = self._c.app.amqp.queues, self._limiter
        # Search all queues, not consume_from: Celery 5.5 does not add a queue again that was cancelled before.
        home, name = queues.get(queue), granted_queue(queue)
        if (
            home is None
            or name in queues.consume_from
            or home_queue(queue, limiter.worker.homes) != queue
        ):
            return
        for allowed in permitted(self._c, [queue_beside(home)]):
            limiter.worker.homes |= {queue}
            if not self._consumer.consuming_from(name):
                self._consumer.add_queue(allowed)
                self._consumer.consume()

    def remove(self, queue: str) -> None:
        """Consume one queue less. Messages that its granted queue has delivered still belong to it."""
        home = self._c.app.amqp.queues.aliases.get(queue)
        name = queue if home is None else home.name
        self._remove(queue)
        if name in self._limiter.worker.homes:
            self._consumer.cancel_by_queue(granted_queue(name))
            self._limiter.mover.leave([name])

    @property
    def _consumer(self) -> Any:
        return self._c.task_consumer if self._own is None else self._own

    def _received(self, message: TaskMessage) -> None:
        """Give the message to the pool; if no process is free, queue it ahead of all but earlier granted ones."""
        goes_first(self._c, partial(self._handle, message))
        if self._unstarted is not None:
            self._unstarted.received()


def _consumer(c: Consumer) -> Any:
    channel = c.connection.channel()
    # The pool may have ended, and 0 would stand for no limit.
    # A longer prefetch would keep messages here while another worker has a free process. RabbitMQ counts per queue.
    most = getattr(c.controller, "max_concurrency", None) or pool_size(c.pool) or 1
    channel.basic_qos(0, most, False)  # noqa: FBT003 - the transports name it differently
    if c.app.conf.get("worker_disable_prefetch") and c.connection.transport.driver_type == "redis":
        _only_for_a_free_process(channel.qos, most)
    return c.app.amqp.Consumer(
        channel, accept=c.app.conf.accept_content, on_decode_error=c.on_decode_error
    )


def _only_for_a_free_process(qos: Any, most: int) -> None:
    """Let the channel deliver only to a free process, as Celery does on its own channel for Redis."""
    can_consume = qos.can_consume
    qos.can_consume = lambda: len(state.reserved_requests) < most and can_consume()
