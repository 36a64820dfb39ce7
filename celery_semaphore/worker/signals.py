"""Celery signals for users; each says where it is sent.

The sender is the task, as with Celery's own: ``permit_lost.connect(sender=export)``. Those of the main
process come from threads of their own, and from none but a worker's.
"""

from __future__ import annotations

from celery.utils.dispatch import Signal

#: Where the task runs, before its body: ``task_id``, ``permit``.
permit_acquired = Signal(name="permit_acquired", providing_args={"task_id", "permit"})

#: In the worker's main process: ``task_id``, ``permit``, ``held`` (seconds).
permit_released = Signal(name="permit_released", providing_args={"task_id", "permit", "held"})

#: In the worker's main process: ``task_id``, ``permit``, ``reason`` (a text).
permit_lost = Signal(name="permit_lost", providing_args={"task_id", "permit", "reason"})

#: Where the task would have run: ``task_id``, ``refusal`` (limit, occupied, position, retry_after …).
task_saturated = Signal(name="task_saturated", providing_args={"task_id", "refusal"})
