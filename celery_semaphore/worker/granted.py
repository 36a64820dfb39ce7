"""The granted queues: short ones beside those that a worker consumes, by which its parked messages come back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kombu.entity import Queue

from .limiter import Limiter
from .route import granted_queue, home_queue


def consume_granted(c: Any, limiter: Limiter) -> None:
    """Consume the one beside each queue, also of those that are added later, as long as that is consumed.

    Called at each connection, when the loop does not consume yet: it begins with all of them.
    """
    homes = dict(c.app.amqp.queues.consume_from)
    # One that is there already is the user's own, of that name by chance.
    limiter.granted = frozenset(name for name in homes if granted_queue(name) not in homes)
    for name in limiter.granted:
        c.task_consumer.add_queue(_beside(homes[name]))
    if not isinstance(c.add_task_queue, partial):  # Celery has no signal for either
        c.add_task_queue = partial(_add, c, limiter, c.add_task_queue)
        c.cancel_task_queue = partial(_cancel, c, limiter, c.cancel_task_queue)


def _add(
    c: Any, limiter: Limiter, add: Callable[..., None], queue: str, *args: Any, **options: Any
) -> None:
    add(queue, *args, **options)
    homes = c.app.amqp.queues.consume_from
    home = homes.get(queue)
    if home is None or granted_queue(queue) in homes or home_queue(queue, limiter.granted) != queue:
        return
    limiter.granted |= {queue}
    if not c.task_consumer.consuming_from(granted_queue(queue)):
        c.task_consumer.add_queue(_beside(home))
        c.task_consumer.consume()


def _cancel(c: Any, limiter: Limiter, cancel: Callable[[str], None], queue: str) -> None:
    """What it has delivered already still belongs to its home."""
    home = c.app.amqp.queues.aliases.get(queue)
    name = queue if home is None else home.name
    cancel(queue)
    if name in limiter.granted:
        c.task_consumer.cancel_by_queue(granted_queue(name))


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
