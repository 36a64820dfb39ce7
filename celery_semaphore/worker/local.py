"""Tasks that run in this very process (eager, or a pool of threads, greenlets or one): their end."""

from __future__ import annotations

from typing import Any

from celery.signals import task_postrun

from .limiter import limiter_of

PERMIT = "semaphore_permit"  # of the running request
ASKING = "semaphore_asking"  # the holder that must be released, from before the store is asked


def watch_ends() -> None:
    """Release at ``task_postrun``, the one signal of every end for which Python unwinds."""
    task_postrun.connect(_release, weak=False, dispatch_uid="celery_semaphore.local")


def _release(task: Any = None, **_: Any) -> None:
    holder = task.request.__dict__.pop(ASKING, None)
    if holder is None:
        return
    ledger = limiter_of(task.app).side.ledger
    if task.request.is_eager:
        ledger.ended_here(holder)
    else:
        ledger.ended(holder)
