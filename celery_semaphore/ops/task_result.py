"""Ask the result backend whether a task has ended."""

from __future__ import annotations

from threading import Thread
from typing import Any

from celery import states

from ..worker.pool_process.result import can_track

LONGEST_S = (
    2.0  # for an answer: a backend may have no timeout of its own, and a page must not hang with it
)


def result_of(app: Any, task_id: str) -> str | None:
    """Return the state of a result that is ready; None without one, and where the backend does not tell in time."""
    found = list[str | None]()
    thread = Thread(target=lambda: found.append(_result_of(app, task_id)), daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    return found[0] if found else None


def _result_of(app: Any, task_id: str) -> str | None:
    try:
        if not can_track(app.backend):
            return None
        status = str(app.backend.get_task_meta(task_id, cache=False)["status"])
    except Exception:  # noqa: BLE001 - a backend may raise anything; what else is known is shown
        return None
    return status if status in states.READY_STATES else None
