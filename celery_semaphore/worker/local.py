"""The end of a task in the process that ran it: the permit goes back without a detour.

Whatever does not get here, because its process died or the store did not answer, the worker's main
process releases when it learns of the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery.signals import task_postrun

from ..core.permit import Claim
from ..errors import StoreUnavailable
from .limiter import Limiter, limiter_of
from .note import NotePipe

PERMIT = "semaphore_permit"  # of the running request
ASKING = (
    "semaphore_asking"  # holder and claims that must be released, from before the store is asked
)


def watch_ends() -> None:
    """Release at ``task_postrun``, the one signal of every end for which Python unwinds."""
    task_postrun.connect(_release, weak=False, dispatch_uid="celery_semaphore.local")


def _release(task: Any = None, **_: Any) -> None:
    asking = task.request.__dict__.pop(ASKING, None)
    if asking is None:
        return
    limiter, (holder, claims) = limiter_of(task.app), asking
    if task.request.is_eager:
        limiter.side.ledger.ended_here(holder)
    elif limiter.notes is None:
        limiter.side.ledger.ended(holder)
    else:
        _release_and_note(limiter, limiter.notes, holder, claims)


def _release_and_note(
    limiter: Limiter, notes: NotePipe, holder: str, claims: Sequence[Claim]
) -> None:
    side = limiter.side
    try:
        side.breaker.check()
    except StoreUnavailable:
        return  # without the note, the main process goes on trying
    try:
        outgoing = side.store.release(holder, claims)
    except StoreUnavailable as error:
        side.breaker.failed(error)
    else:
        # After the store confirmed it, never before: a process that dies in between is released again.
        notes.released(holder, outgoing)
        if outgoing:
            limiter.alarm.ring()  # a permit is kept for it
