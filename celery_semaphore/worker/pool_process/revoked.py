"""Store that a task was revoked, so that a caller that waits for it, its chord or its chain is notified at once."""

from __future__ import annotations

from celery import states
from celery.exceptions import TaskRevokedError

from ...task.protocols import BoundTask, TaskContext


def store_revoked(task: BoundTask, request: TaskContext, why: str) -> None:
    """Store the result of a revoked task; raise what the result backend raises."""
    # The backend's own mark_as_revoked would leave the tasks behind it in a chain without an end.
    task.backend.mark_as_failure(
        request.id,
        TaskRevokedError(why),
        request=request,
        store_result=is_wanted(task, request) or task.store_errors_even_if_ignored,
        call_errbacks=False,
        state=states.REVOKED,
    )


def is_wanted(task: BoundTask, request: TaskContext) -> bool:
    """Return whether this task's result is stored at all; the option of the call overrides the task's."""
    said = request.__dict__.get("ignore_result")
    return not (task.ignore_result if said is None else said)
