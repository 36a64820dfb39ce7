"""The end of a task that does not run: revoked, so that whoever waits for it, its chord or its chain hears at once."""

from __future__ import annotations

from typing import Any

from celery import states
from celery.exceptions import TaskRevokedError


def store_revoked(task: Any, request: Any, why: str) -> None:
    """Store it; raises what the result backend raises."""
    # As its mark_as_revoked, which would leave those behind it in a chain without an end.
    task.backend.mark_as_failure(
        request.id,
        TaskRevokedError(why),
        request=request,
        store_result=is_wanted(task, request) or task.store_errors_even_if_ignored,
        call_errbacks=False,
        state=states.REVOKED,
    )


def is_wanted(task: Any, request: Any) -> bool:
    """Whether this task's result is stored at all; the call decides before the task."""
    said = request.__dict__.get("ignore_result")
    return not (task.ignore_result if said is None else said)
