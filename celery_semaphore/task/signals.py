"""The Celery signals for users; the comment of each says where it is sent.

The sender is the task, as with Celery's own: ``permit_lost.connect(sender=export)``.

``permit_lost`` and ``permit_released`` are sent from one thread of the worker's main process, which does nothing
else, and so is ``task_saturated`` where the main process asked. So a slow receiver delays other receivers, but neither
renewals nor tasks. ``permit_lost`` goes first. While 1,000 signals wait, further ones are dropped (``permit_lost``:
while 2,000 wait), which is logged once. A worker that ends sends the remaining signals within 5 seconds. Processes
without a worker send no ``permit_lost`` and no ``permit_released``, nor do eager runs.

Celery's own ``task_revoked`` of a dropped task is sent from the same thread, like ``permit_released``. For a task that
is revoked or expires, Celery sends it in the worker's event loop, which a slow receiver stops.
"""

from __future__ import annotations

from celery.utils.dispatch import Signal

#: Where the task runs, after ``task_prerun`` and before its body: ``task_id``, ``permit``.
permit_acquired = Signal(name="permit_acquired", providing_args={"task_id", "permit"})

#: In the worker's main process: ``task_id``, ``permit``, ``held`` (seconds).
permit_released = Signal(name="permit_released", providing_args={"task_id", "permit", "held"})

#: In the worker's main process: ``task_id``, ``permit``, ``reason`` (a text).
permit_lost = Signal(name="permit_lost", providing_args={"task_id", "permit", "reason"})

#: Where the task would have run, or in the worker's main process:
#: ``task_id``, ``refusal`` (limit, occupied, position, retry_after …).
task_saturated = Signal(name="task_saturated", providing_args={"task_id", "refusal"})
