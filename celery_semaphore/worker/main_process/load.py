"""Answer how many tasks of each queue this worker runs and has prefetched, for the exporter of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.worker import state as worker_state
from celery.worker.control import Panel

if TYPE_CHECKING:
    from ..limiter import Limiter

COMMAND = "semaphore_load"
HELP = "Count the tasks that run and that are prefetched, by queue; without those that wait for a permit."


def add_load_command() -> None:
    """Register ``celery inspect semaphore_load`` with workers and with Celery's command line."""
    Panel.register(name=COMMAND, type="inspect", help=HELP)(load_of_worker)


def load_of_worker(state: Any, **_: Any) -> dict[str, dict[str, tuple[int, int]]]:
    """Return for each queue that this worker consumes how many tasks run and how many are prefetched.

    Tasks without a limit count, too. Held messages do not: Celery forgot their requests when they were refused.
    """
    from ..limiter import LIMITER  # the command line loads this module with each of its commands

    limiter: Limiter | None = state.app.__dict__.get(LIMITER)
    found = {queue: [0, 0] for queue in state.app.amqp.queues.consume_from}
    for request in list(worker_state.reserved_requests):  # the active ones are among them
        queue = _queue_of(request, state.consumer, limiter)
        if queue is not None:
            found.setdefault(queue, [0, 0])[request not in worker_state.active_requests] += 1
    return {"queues": {queue: (running, waits) for queue, (running, waits) in found.items()}}


def _queue_of(request: Any, consumer: Any, limiter: Limiter | None) -> str | None:
    """Return the queue of a request, for one of a granted queue the queue that it belongs to; None if unknown."""
    from ..messages.route import Unroutable, queue_by_tag, queue_of

    came_by = request.message.delivery_info
    try:
        queue = queue_of(request.app, queue_by_tag(consumer.task_consumer, came_by), came_by)
    except Unroutable:
        return None
    return limiter.home_of(queue) if limiter else queue
