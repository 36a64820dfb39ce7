"""Replies: the workers' answers about some tasks, and a view with their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .views import ResourceView, Where

NOT_ASKED = "no worker was asked (--timeout 0)"


@dataclass(frozen=True, slots=True)
class TaskAt:
    """Names a task and a worker that has its message."""

    name: str
    worker: str
    active: bool  # True if it runs there; False if the worker only keeps it, as while it waits
    reserved: bool = False  # True if it is the next for a process of the pool


@dataclass(frozen=True, slots=True)
class Replies:
    """Holds the workers' answers about some tasks, by task id."""

    tasks: Mapping[str, list[TaskAt]] = field(default_factory=dict)
    problem: str | None = None  # why there are no answers, or perhaps not all

    def name_of(self, task_id: str) -> str | None:
        return next((task.name for task in self.tasks.get(task_id, ())), None)

    def workers_of(self, task_id: str, *, active: bool) -> str | None:
        """Return the workers where the task runs, or waits; two deliveries of it may be on two workers."""
        found = {at.worker for at in self.tasks.get(task_id, ()) if at.active is active}
        return ", ".join(sorted(found)) or None


def named(view: ResourceView, heard: Replies) -> ResourceView:
    """Return the view with the names of tasks and workers that the workers answered."""
    permits = [
        replace(p, task=heard.name_of(p.task_id), worker=heard.workers_of(p.task_id, active=True))
        for p in view.permits
    ]
    waiters = [
        replace(
            w,
            task=heard.name_of(w.task_id),
            worker=heard.workers_of(w.task_id, active=False) if w.where is Where.KEPT else None,
        )
        for w in view.waiters
    ]
    return replace(view, permits=tuple(permits), waiters=tuple(waiters), note=heard.problem)
