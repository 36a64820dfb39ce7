"""Answer how many tasks of each queue this worker runs and has prefetched, for the exporter of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.worker import state as worker_state
from celery.worker.control import Panel

from ..celery_internals import scheduled_requests

if TYPE_CHECKING:
    from ..limiter import Limiter

COMMAND = "semaphore_load"
HELP = "Count the tasks that run, are prefetched, or wait for their eta, by queue; without those that wait for a permit."
RUNNING, PREFETCHED, SCHEDULED = range(3)


def add_load_command() -> None:
    """Register ``celery inspect semaphore_load`` with workers and with Celery's command line."""
    Panel.register(name=COMMAND, type="inspect", help=HELP)(load_of_worker)


def load_of_worker(state: Any, **_: Any) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return for each queue that this worker consumes how many tasks run, are prefetched, and wait for their eta.

    Tasks without a limit count, too. Kept messages do not: Celery forgot their requests when they were refused.
    """
    from ..limiter import LIMITER  # the command line loads this module with each of its commands

    limiter: Limiter | None = state.app.__dict__.get(LIMITER)
    found = {queue: [0, 0, 0] for queue in state.app.amqp.queues.consume_from}

    def count(request: Any, what: int) -> None:
        queue = _queue_of(request, state.consumer, limiter)
        if queue is not None:
            found.setdefault(queue, [0, 0, 0])[what] += 1

    for request in list(worker_state.reserved_requests):  # the active ones are among them
        count(request, RUNNING if request in worker_state.active_requests else PREFETCHED)
    for request in scheduled_requests(state.consumer):
        count(request, SCHEDULED)
    return {"queues": {queue: tuple(counts) for queue, counts in found.items()}}


def _queue_of(request: Any, consumer: Any, limiter: Limiter | None) -> str | None:
    """Return the queue of a request, for one of a granted queue the queue that it belongs to; None if unknown."""
    from ..messages.own_queue import Unroutable, queue_by_tag, queue_of

    came_by = request.message.delivery_info
    try:
        queue = queue_of(request.app, queue_by_tag(consumer.task_consumer, came_by), came_by)
    except Unroutable:
        return None
    return limiter.home_of(queue) if limiter else queue
