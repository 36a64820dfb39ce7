"""TaskFinder: find what a task waits for or holds, by its id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..core.key import names_of, resource_name, semaphore_of
from ..core.limit import limits_of_tasks
from ..core.names import task_id_of
from ..core.store import Store
from ..core.task_wait import TaskWait
from .reader import Reader
from .replies import Replies, named
from .task_view import STATES, HeldView, TaskState, TaskView, WaitView
from .views import PermitView, WaiterView


@dataclass(frozen=True, slots=True)
class TaskFinder:
    """Looks for a task in the store, then asks the workers, then its result."""

    store: Store
    reader: Reader
    ask: Callable[[Collection[str]], Replies]
    # The semaphores of the task with this name; None: it is not known.
    semaphores_of: Callable[[str], Collection[str] | None]
    result: Callable[[str], str | None]

    def find(self, task_id: str, *, everywhere: bool) -> TaskView:
        waits = [self._wait(each) for each in self.store.waits_of(task_id)]
        holders = {permit.task_id for wait in waits for permit in wait.at.permits}
        heard = self.ask({task_id} | holders)
        name = heard.name_of(task_id)
        seen = TaskView(
            task_id, TaskState.UNKNOWN, name, _worker(heard, task_id), note=heard.problem
        )
        if waits:
            waits = [replace(each, at=named(each.at, heard)) for each in waits]
            return replace(seen, state=waits[0].state, waits=tuple(waits))
        wanted = self.semaphores_of(name) if name else None
        if wanted is None and not everywhere:
            wanted = ()
        permits = tuple(named_permit(each, heard) for each in self._permits(task_id, wanted))
        if permits or heard.workers_of(task_id, active=True):
            return replace(seen, state=TaskState.RUNS, permits=permits)
        if received := heard.tasks.get(task_id):
            is_next = any(at.reserved for at in received)
            return replace(seen, state=TaskState.PREFETCHED if is_next else TaskState.RECEIVED)
        result = self.result(task_id)
        return replace(seen, state=TaskState.ENDED, result=result) if result else seen

    def _wait(self, found: TaskWait) -> WaitView:
        seen = self.store.snapshot(found.resource, 0)
        others = {claim.resource for claim in found.claims if claim.resource != found.resource}
        also = self.store.snapshots(sorted(others))
        left = None if found.granted_until is None else max(found.granted_until - seen.at, 0.0)
        return WaitView(
            STATES.get(found.state, TaskState.WAITS),
            replace(self.reader.view_of(seen), waiters=(WaiterView.of(found.waiter, seen),)),
            tuple(replace(self.reader.view_of(each), permits=()) for each in also),
            left,
        )

    def _permits(self, task_id: str, wanted: Collection[str] | None) -> Iterator[HeldView]:
        """Yield its permits at the semaphores that it may use; None: at all that are in use."""
        names = [
            each
            for each in (self.store.resources() if wanted is None or wanted else ())
            if wanted is None or semaphore_of(each) in wanted
        ]
        for seen in self.store.snapshots(names):
            for held in seen.holders:
                if not held.granted and task_id_of(held.holder) == task_id:
                    permit = PermitView.of(held, seen.at)
                    yield HeldView(seen.resource, *names_of(seen.resource), permit)


def _worker(heard: Replies, task_id: str) -> str | None:
    running = heard.workers_of(task_id, active=True)
    return running or heard.workers_of(task_id, active=False)


def named_permit(view: HeldView, heard: Replies) -> HeldView:
    """Return the view with the names of its task and its worker."""
    task_id = view.permit.task_id
    worker = heard.workers_of(task_id, active=True)
    return replace(view, permit=replace(view.permit, task=heard.name_of(task_id), worker=worker))


def semaphores_of(app: Any, name: str) -> frozenset[str] | None:
    """Return the resources of the semaphores that this task of the app declares; None if the app has no such task."""
    if (task := app.tasks.get(name)) is None:
        return None
    return frozenset(resource_name(limit.semaphore, None) for limit in limits_of_tasks([task]))
