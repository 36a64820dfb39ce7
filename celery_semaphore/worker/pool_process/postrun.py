"""Release the permit at the end of a task, directly from the process that ran it.

If the process dies or the store does not answer, the worker's main process releases the permit when it learns of the
end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery.signals import task_postrun
from celery.states import REJECTED

from ...core.claim import Claim
from ...core.message_id import MessageId
from ...errors import StoreUnavailable
from ...task.protocols import BoundTask
from ..limiter import Limiter, limiter_of
from ..messages.header_names import PENDING_RELEASE
from ..permits.note import NotePipe
from .eager_holder import EagerHolder
from .pending_release import PendingRelease

logger = logging.getLogger(__name__)


def watch_ends() -> None:
    """Release at ``task_postrun``, which Celery sends at every end that unwinds the Python stack."""
    task_postrun.connect(_release, weak=False, dispatch_uid="celery_semaphore.postrun")


def release_unreleased(task: BoundTask, own: dict[str, Any]) -> None:
    """Release for a request to which Celery sent no ``task_postrun``: it was refused, or ended before its body."""
    pending = own.pop(PENDING_RELEASE, None)
    if not isinstance(pending, PendingRelease) or pending.begun:
        return
    try:
        _end(task, pending, None)
    except Exception:  # the main process releases when it learns of the end
        logger.exception("%s was not released", pending.holder)


def _release(task: BoundTask, state: str | None = None, **_: object) -> None:
    pending = task.request.__dict__.pop(PENDING_RELEASE, None)
    if isinstance(pending, EagerHolder):
        pending.end()
    elif isinstance(pending, PendingRelease):  # else None, or the value of a header of this name
        _end(task, pending, state)


def _end(task: BoundTask, pending: PendingRelease, state: str | None) -> None:
    pending.begun = True
    limiter, message_id = limiter_of(task.app), pending.message_id
    # The task was rejected, or interrupted by the signal that ends its process. It may be delivered again, and must
    # run then, also under another message id: the next attempt may put it back as a new message.
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
        notes.unreleased(holder)  # the main process retries
        return
    try:
        handed = process.store.release(holder, claims, message_id)
    except StoreUnavailable as error:
        logger.warning(
            "%s is released by the main process, because the store failed: %s", holder, error
        )
        process.breaker.failed(error)
        notes.unreleased(holder)
    else:
        # Note it only after the store has confirmed: if this process dies before, the main process releases again.
        notes.released(holder, handed)
        if handed.outgoing or handed.granted:
            limiter.waker.wake()  # a permit is reserved for what must be sent, or begins
