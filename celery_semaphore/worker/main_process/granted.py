"""The granted queues: short ones beside those that a worker consumes, by which its parked messages come back.

A permit is kept for what comes by them, so it waits for nothing but a process: they have a channel of their own,
or it would not be delivered while the worker's prefetch is used up by others; and of those that wait for
a process it is the next.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from celery.worker import state
from kombu.common import ignore_errors
from kombu.entity import Queue

from ..holding.pool_line import goes_first
from ..holding.shutdown import ends_cold
from ..limiter import Limiter
from ..messages.route import granted_queue, home_queue, is_amqp


class GrantedQueues:
    """Of one worker, also those of queues that it begins or ceases to consume while it runs."""

    def __init__(self, c: Any, limiter: Limiter) -> None:
        self._c = c
        self._limiter = limiter
        self._own: Any = None  # the consumer with a channel of its own
        # Celery has no signal for either.
        self._add, c.add_task_queue = c.add_task_queue, self.add
        self._remove, c.cancel_task_queue = c.cancel_task_queue, self.remove

    def connect(self) -> None:
        """Called at each connection, when the loop does not consume yet: it begins with all of them."""
        c, homes = self._c, dict(self._c.app.amqp.queues.consume_from)
        # One that is there already is the user's own, of that name by chance.
        granted = frozenset(name for name in homes if granted_queue(name) not in homes)
        self._limiter.granted = granted
        # A loop without a hub asks no step to begin: it begins with the worker's own consumer.
        self._own = None if c.hub is None else _consumer(c)
        for name in granted:
            self._consumer.add_queue(_beside(homes[name]))

    def consume(self) -> None:
        """The loop is ready for messages."""
        self._handle = self._c.create_task_handler()
        self._own.on_message = self._received
        self._own.consume()

    def cancel(self) -> None:
        """No more messages; those that were delivered can still be acknowledged.

        Once only: over a stream that a cold shutdown broke, RabbitMQ would never answer a second attempt. In a cold
        shutdown not even once, for each wait adds to those of Celery, and a supervisor kills a worker that takes long.
        The channel ends with its connection, and RabbitMQ delivers again what was not acknowledged.
        """
        if self._own is not None and not (ends_cold() and is_amqp(self._c.app)):
            ignore_errors(self._c, self._own.cancel)  # type: ignore[no-untyped-call]

    def add(self, queue: str, *args: Any, **options: Any) -> None:
        """Consume one more."""
        self._add(queue, *args, **options)
        queues, limiter = self._c.app.amqp.queues, self._limiter
        # Not of those that it consumes: Celery 5.5 forgets to add one there that was cancelled before.
        home, name = queues.get(queue), granted_queue(queue)
        if (
            home is None
            or name in queues.consume_from
            or home_queue(queue, limiter.granted) != queue
        ):
            return
        limiter.granted |= {queue}
        if not self._consumer.consuming_from(name):
            self._consumer.add_queue(_beside(home))
            self._consumer.consume()

    def remove(self, queue: str) -> None:
        """Consume one less. What it has delivered already still belongs to its home."""
        home = self._c.app.amqp.queues.aliases.get(queue)
        name = queue if home is None else home.name
        self._remove(queue)
        if name in self._limiter.granted:
            self._consumer.cancel_by_queue(granted_queue(name))

    @property
    def _consumer(self) -> Any:
        return self._c.task_consumer if self._own is None else self._own

    def _received(self, message: Any) -> None:
        """Hand it to a process; if none is free, it is before all but those that came the same way."""
        goes_first(self._c, partial(self._handle, message))


def _consumer(c: Any) -> Any:
    channel = c.connection.channel()
    # More than can run would wait here while a process of another worker is free. RabbitMQ counts for each queue.
    most = getattr(c.controller, "max_concurrency", None) or _processes(c)
    channel.basic_qos(0, most, False)  # noqa: FBT003 - the transports name it differently
    if c.app.conf.get("worker_disable_prefetch") and c.connection.transport.driver_type == "redis":
        _only_for_a_free_process(channel.qos, most)
    return c.app.amqp.Consumer(
        channel, accept=c.app.conf.accept_content, on_decode_error=c.on_decode_error
    )


def _processes(c: Any) -> int:
    """Return how many run tasks; none in a cold shutdown that interrupted an attempt to connect: the pool is gone."""
    try:
        return int(c.pool.num_processes)
    except AttributeError:
        return 1


def _only_for_a_free_process(qos: Any, most: int) -> None:
    """What Celery does on the channel of its own queues, for Redis alone."""
    can_consume = qos.can_consume
    qos.can_consume = lambda: len(state.reserved_requests) < most and can_consume()


def _beside(home: Any) -> Queue:
    return Queue(  # type: ignore[no-untyped-call]
        granted_queue(home.name),
        durable=home.durable,
        queue_arguments=home.queue_arguments,
        max_priority=home.max_priority,
        auto_delete=home.auto_delete,
        exclusive=home.exclusive,
        expires=home.expires,
    )
