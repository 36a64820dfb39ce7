"""Query the workers for their tasks and revoke tasks, by Celery's remote control.

The store keeps no names of tasks and workers: every permit would pay for what an operator reads once a week.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..errors import SemaphoreError
from .replies import Replies, TaskAt


def ask_workers(app: Any, task_ids: Collection[str], timeout: float) -> Replies:
    """Query all workers for these tasks; collect the answers of ``timeout`` seconds."""
    try:
        answers = broadcast(app, timeout, "query_task", ids=list(task_ids))
    except Exception as error:  # noqa: BLE001 - whatever the transport raises, what the store knows is shown
        # The error of an address that cannot be parsed has a part of it, perhaps of its password.
        said = "" if isinstance(error, ValueError) else str(error)
        return Replies(problem=f"the workers could not be asked: {said or type(error).__name__}")
    if not answers:
        return Replies(problem=f"no worker answered within {timeout:g} s")
    tasks: dict[str, list[TaskAt]] = {}
    for worker, known in answers:
        for task_id, (state, info) in known.items() if "error" not in known else ():
            at = TaskAt(info["name"], worker, state == "active", state == "reserved")
            tasks.setdefault(task_id, []).append(at)
    return Replies(tasks)


def revoke(app: Any, task_ids: Collection[str], timeout: float) -> list[str]:
    """Revoke these tasks; return the workers that answered, for only running workers remember a revocation."""
    try:
        answers = broadcast(app, timeout, "revoke", task_id=list(task_ids))
    except Exception as error:
        msg = f"the workers could not be reached: {str(error) or type(error).__name__}"
        raise SemaphoreError(msg) from error
    return sorted(worker for worker, _ in answers)


def broadcast(app: Any, timeout: float, command: str, **arguments: Any) -> list[tuple[str, Any]]:
    """Send a command to all workers; return each answer. Celery's own inspect would merge workers of one name."""
    # A connection of the pool would take six seconds to report that the broker is away.
    with app.connection_for_write(connect_timeout=timeout) as connection:
        answers = app.control.broadcast(
            command, arguments=arguments, reply=True, timeout=timeout, connection=connection
        )
    return [pair for answer in answers or () for pair in answer.items()]
