"""Touch the private parts of Celery and kombu that this library needs; no other module does but task/converter.py.

All were read in Celery 5.5 to 5.7 and kombu 5.5 to 5.7. tests/worker/test_celery_internals.py fails when one is gone.
"""

# ruff: noqa: SLF001 - that is what this module is for

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from celery import Celery, current_app
from celery._state import _task_stack

from ..task.celery_types import Consumer

# Attributes of Celery's Request that our subclass reads; Celery has no public name for them.
REQUEST_ATTRIBUTES = (
    "_already_cancelled",  # a cold shutdown or a lost connection ended it
    "_already_revoked",
    "_apply_result",  # set once the pool was given the request
    "_app",
    "_decoded",  # what a second Request of the same message needs
    "_delivery_info",  # exchange, routing key, priority, redelivered
    "_request_dict",  # the headers that go to the process that runs the task
)

# The tasks that run in this thread, the innermost last: an eager run may be part of another.
running_tasks = _task_stack


def app_behind_proxy() -> Celery:
    """Return the current app itself: Celery's own pytest plugin has no other way to it."""
    return current_app._get_current_object()


# -- the worker


def requests_for_pool(c: Consumer) -> Any:
    """Return the requests that wait for a free process, in order; an empty tuple where they need not wait."""
    processes = c.controller.semaphore
    return () if processes is None else processes._waiting


def restores_prefetch(c: Consumer) -> Callable[[Any], object]:
    """Return what Celery calls after a lost connection, at each acknowledgement, until the prefetch is whole again."""
    restore: Callable[[Any], object] = c._restore_prefetch_count_after_connection_restart
    return restore


def restore_prefetch_by(c: Consumer, restore: Callable[..., object]) -> None:
    """Let Celery call this instead."""
    c._restore_prefetch_count_after_connection_restart = restore


def restore_prefetch_now(c: Consumer) -> None:
    """Restore the full prefetch at once; the caller sends it to the broker."""
    with c.qos._mutex:  # as Celery's own step does
        if not c._maximum_prefetch_restored:
            c.qos.value += c.max_prefetch_count - c.initial_prefetch_count
            c.initial_prefetch_count = c.max_prefetch_count
            c._maximum_prefetch_restored = True


def paces_by(c: Consumer, paid: Callable[[Any], bool]) -> None:
    """Give a request that has ``paid`` for its ``rate_limit`` to the pool at once, past the others of its task.

    Do it before Celery makes its strategies, which take the method.
    """
    pace = c._limit_task

    def limit_task(request: Any, bucket: Any, tokens: int) -> None:
        if paid(request):
            c._limit_move_to_pool(request)
        else:
            pace(request, bucket, tokens)

    c._limit_task = limit_task


def scheduled_requests(c: Consumer) -> Iterator[Any]:
    """Yield the requests that wait for their ``eta`` in this worker, as ``celery inspect scheduled`` finds them."""
    from celery.worker.request import Request  # noqa: PLC0415 - a process that only sends tasks imports this module

    for entry in list(c.timer.schedule.queue):
        args = getattr(entry.entry, "args", None) or ()
        if args and isinstance(args[0], Request):
            yield args[0]


def pool_size(pool: Any) -> int:
    """Return how many tasks a pool can run at once; 0 if there is none, or if a cold shutdown has ended it."""
    try:
        # Up to Celery 5.6 gevent's pool counts the greenlets that run now; prefork's limit does not follow --autoscale.
        return int(pool.num_processes if pool.uses_semaphore else pool.limit)
    except AttributeError:
        return 0


def shuts_down() -> bool:
    """Return whether any shutdown has begun."""
    return _has_code("should_stop") or shuts_down_cold()


def shuts_down_cold() -> bool:
    """Return whether a cold shutdown has begun."""
    return _has_code("should_terminate")


def _has_code(name: str) -> bool:
    from celery.worker import state  # noqa: PLC0415 - as above

    told = getattr(state, name)  # an exit code, where 0 is not False
    return told is not None and told is not False


# -- kombu


def tags_by_queue(consumer: Any) -> Mapping[str, str]:
    """Return the tags under which a broker delivers to this consumer, by the names of its queues."""
    tags: Mapping[str, str] = consumer._active_tags
    return tags


def unanswered_connection(channel: Any) -> Any:
    """Return the connection on which a channel of Redis waits for the answer to its BRPOP, or None."""
    return getattr(channel, "_in_poll", None)


def read_answer(channel: Any) -> None:
    """Read that answer; kombu returns a message that has no consumer. Raises ``Empty`` for an answer without one."""
    channel._brpop_read()


def forget_answer(channel: Any) -> None:
    """Wait for that answer no more."""
    channel._in_poll = None


def queues_of(channel: Any, exchange: str, routing_key: Any) -> Sequence[str]:
    """Return the queues that a virtual transport would put such a message into, as it does when it restores one."""
    queues: Sequence[str] = channel._lookup(exchange, routing_key)
    return queues


def unacknowledged_on_redis(channel: Any) -> int:
    """Return how many messages of all queues kombu keeps on Redis until they are acknowledged; 0 elsewhere."""
    key = getattr(channel, "unacked_key", None)
    return int(channel.client.hlen(key)) if key is not None else 0


Times = tuple[float, float]  # between which a message was delivered


def note_times(connection: Any) -> None:
    """Let each channel of Redis note on a message when it delivered that, by the clock that kombu's own note has."""
    for channel in _acknowledging(connection):
        channel.qos.append = partial(_append, channel.qos.append)


def _append(append: Callable[..., object], message: Any, tag: str) -> None:
    before = time.time()
    append(message, tag)
    message.delivered_at = before, time.time()


def times_of(message: Any) -> Times:
    """Return between which times a message was delivered, as far as that is known."""
    times: Times = getattr(message, "delivered_at", (0.0, inf))
    return times


def unacknowledged_on(connection: Any) -> list[Any]:
    """Return the messages that a connection to Redis has delivered and that are not acknowledged, the first first."""
    return [
        message
        for channel in _acknowledging(connection)
        for tag, message in list(channel.qos._delivered.items())
        if tag not in channel.qos._dirty
    ]


def restore_nothing_at_exit(connection: Any) -> None:
    """Let kombu restore what a connection to Redis has delivered when that is closed, but not at the process' exit."""
    for channel in _acknowledging(connection):
        channel.qos._on_collect.cancel()


def _acknowledging(connection: Any) -> list[Any]:
    channels = getattr(connection.transport, "channels", None) or ()
    return [each for each in channels if getattr(each, "ack_emulation", False)]


def list_of(channel: Any, queue: str, message: Mapping[str, Any]) -> str:
    """Return the list of Redis that holds the messages of this queue with this message's priority."""
    priority = channel._get_message_priority(message, reverse=False)
    name: str = channel._q_for_pri(queue, priority)
    return name
