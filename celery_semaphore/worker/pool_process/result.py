"""Store the state of a waiting or dropped task in its result.

A waiting task stores nothing unless ``semaphore_track_waiting`` is set. It then stores its state before its message
goes back or into the store, while no other process can run it. But the broker may redeliver a task that has ended, so
a ready result is left alone. Celery's backends cannot compare and write in one step: an end that the main process
stores between the read and the write is overwritten, and looks like a wait afterwards.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime

from celery import states
from celery.backends.base import Backend, DisabledBackend

from ...core.refusal import Reason, Refusal
from ...task.protocols import BoundTask
from .revoked import is_wanted, store_revoked

logger = logging.getLogger(__name__)

WAITING = "WAITING"
UNTRACKED = (
    "semaphore_track_waiting does nothing: it needs a result backend that can read and overwrite results,"
    " such as Redis or a database."
)
NOT_ITS_TURN = (Reason.COPY, Reason.RUNNING)  # another message of its task stores the state


def can_track(backend: Backend) -> bool:
    """Return False for rpc, which sends each state as a message, so that a late one would hide the result."""
    return not isinstance(backend, DisabledBackend) and "rpc" not in type(backend).__module__


def tell_waiting(task: BoundTask, refusal: Refusal) -> None:
    """Store that the task waits: for which semaphore, at which position, and since when."""
    ticket = refusal.ticket
    if ticket is None or refusal.reason in NOT_ITS_TURN:
        return
    claim, since = refusal.claim, datetime.fromtimestamp(ticket.since, UTC).isoformat()
    waits = {"semaphore": claim.semaphore, "position": refusal.position, "since": since}
    _tell(task, WAITING, waits | ({} if claim.key is None else {"key": claim.key}))


def tell_started(task: BoundTask) -> None:
    """Store that the task has started, unless Celery has done so already."""
    if not task.track_started:
        _tell(task, states.STARTED, {"pid": os.getpid(), "hostname": task.request.hostname})


def tell_dropped(task: BoundTask, text: str) -> None:
    """Store that the task ended as revoked."""
    try:
        store_revoked(task, task.request, f"dropped: {text}")
    except Exception:
        logger.exception("task %s was dropped, but this could not be stored", task.name)


def _tell(task: BoundTask, state: str, meta: dict[str, object]) -> None:
    request, backend = task.request, task.backend
    if not is_wanted(task, request) or not can_track(backend):
        return
    try:
        known = backend.get_task_meta(request.id, cache=False)["status"]
        if known not in states.READY_STATES:
            backend.store_result(request.id, meta, state, request=request)
    except Exception as error:  # noqa: BLE001 - a backend may raise anything: the task waits anyway
        logger.warning("task %s[%s]: %s is not stored: %r", task.name, request.id, state, error)
