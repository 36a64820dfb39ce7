"""The end of a task in the process that ran it: the permit goes back without a detour.

Whatever does not get here, because its process died or the store did not answer, the worker's main
process releases when it learns of the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from celery.signals import task_postrun
from celery.states import REJECTED

from ...core.permit import Claim, MessageId
from ...errors import StoreUnavailable
from ..limiter import Limiter, limiter_of
from ..messages.headers import PENDING_RELEASE
from ..permits.note import NotePipe
from .eager import EagerHolder


@dataclass(frozen=True, slots=True)
class PendingRelease:
    """What to release when the task ends; noted before the store is asked, since its answer may be lost."""

    holder: str
    claims: Sequence[Claim]
    message_id: MessageId | None = None


def watch_ends() -> None:
    """Release at ``task_postrun``, the one signal of every end for which Python unwinds."""
    task_postrun.connect(_release, weak=False, dispatch_uid="celery_semaphore.local")


def _release(task: Any = None, state: str | None = None, **_: Any) -> None:
    pending = task.request.__dict__.pop(PENDING_RELEASE, None)
    if isinstance(pending, EagerHolder):
        pending.end()
        return
    if not isinstance(pending, PendingRelease):  # also what a header of this name brought
        return
    limiter, message_id = limiter_of(task.app), pending.message_id
    # Rejected, or cut off by the signal that ends its process: it may be delivered again, and then it shall run. Not
    # only as this message: the attempt that comes next may put it back under another name.
    if state in (None, REJECTED):
        message_id = None
    if limiter.notes is None:
        limiter.process.ledger.ended(pending.holder, message_id=message_id)
    else:
        if task.acks_late and state is not None:
            limiter.notes.over(pending.holder)
        _release_and_note(limiter, limiter.notes, pending.holder, pending.claims, message_id)


def _release_and_note(
    limiter: Limiter,
    notes: NotePipe,
    holder: str,
    claims: Sequence[Claim],
    message_id: MessageId | None,
) -> None:
    process = limiter.process
    try:
        process.breaker.check()
    except StoreUnavailable:
        notes.unreleased(holder)  # the main process goes on trying
        return
    try:
        outgoing = process.store.release(holder, claims, message_id)
    except StoreUnavailable as error:
        process.breaker.failed(error)
        notes.unreleased(holder)
    else:
        # After the store confirmed it, never before: a process that dies in between is released again.
        notes.released(holder, outgoing)
        if outgoing:
            limiter.waker.wake()  # a permit is kept for it
