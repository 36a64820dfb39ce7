"""Read the views of a resource from the store, page by page where a line is long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from ..core.key import any_key_of, semaphore_of
from ..core.snapshot import Snapshot
from ..core.store import Store
from ..core.totals import Totals
from ..errors import SemaphoreError
from .directory import check_text, describe
from .views import KeyView, ResourceView, WaiterView, longest

PAGE = 1000  # waiters in one call
COUNTED = 100  # resources in one call: Redis makes no other call meanwhile


class Reader:
    """Reads what the store knows.

    ``declared`` are the limits in the app's code, by semaphore, and ``keyed`` the semaphores that it uses with keys.
    """

    def __init__(
        self, store: Store, declared: Mapping[str, int | None], keyed: Collection[str]
    ) -> None:
        self._store = store
        self._declared = declared
        self._keyed = keyed

    def parts(self, resource: str) -> list[str]:
        """List the resource and all its keys, as far as they are in use."""
        return [name for name in self._store.resources() if resource in (name, semaphore_of(name))]

    def resource(self, resource: str, waiters: int, skip: int = 0) -> ResourceView:
        check_text("resource", resource, "Inspector.find() returns it")
        return self.view_of(self._store.snapshot(resource, waiters, skip))

    def view_of(self, seen: Snapshot) -> ResourceView:
        resource = seen.resource
        counted = [*self.totals([resource] if seen.waiting else [])]
        view = ResourceView.of(seen, longest(each.oldest_wait for each in counted))
        view = replace(view, unsatisfiable=sum(each.set_aside for each in counted))
        if resource == semaphore_of(resource) and seen.declared is None:
            (key,) = self._store.snapshots([any_key_of(resource)])
            if key.declared or resource in self._keyed:
                view = view.with_limit_of(key)
        return replace(view, own_limit=self._declared.get(semaphore_of(resource)))

    def totals(self, resources: Iterable[str]) -> Iterator[Totals]:
        """Yield the counts of each of these resources."""
        names = iter(resources)
        while some := list(islice(names, COUNTED)):
            yield from self._store.totals(some)

    def keys(self, semaphore: str) -> list[KeyView]:
        """List the keys in use, limited or paused by an operator; most waiters first."""
        known = {*self._store.resources(), *self._store.decisions()}
        own = self._declared.get(semaphore)
        keys = (name for name in known if name.startswith(f"{semaphore}/"))
        views = [KeyView.of(each, own) for each in self.totals(keys)]
        return sorted(views, key=lambda view: (-view.waiting, -view.occupied, view.key or ""))

    def hint(self, resource: str) -> str:
        keyed = any(name.startswith(f"{resource}/") for name in self._store.resources())
        return "; each key has a line of its own: name it" if keyed else ""

    def waiting_tasks(self, resource: str, task_ids: Collection[str]) -> list[WaiterView]:
        """Return these waiting tasks; raise an error for the first that does not wait."""
        if isinstance(task_ids, str):
            msg = f"task_ids={task_ids!r} must be a list of ids."
            raise SemaphoreError(msg)
        waiting = self._waiting(resource, task_ids)
        for task_id in task_ids:
            if task_id not in waiting:
                why = f"does not wait here, or did not ask for a permit yet{self.hint(resource)}"
                msg = f"{describe(resource)}: {task_id} {why}."
                raise SemaphoreError(msg)
        return [waiting[task_id] for task_id in task_ids]

    def still_waiting(self, resource: str, task_ids: Collection[str]) -> list[WaiterView]:
        """Return those of these tasks that wait, in the order of the line."""
        views = self._waiting(resource, task_ids)
        return [view for task_id, view in views.items() if task_id in task_ids]

    def _waiting(self, resource: str, wanted: Collection[str]) -> dict[str, WaiterView]:
        """Return the waiters by task id; stop reading the line once all wanted tasks are found."""
        found = dict[str, WaiterView]()
        for view in self.line(resource):
            found.setdefault(view.task_id, view)
            if found.keys() >= set(wanted):
                break
        return found

    def line(self, resource: str) -> Iterator[WaiterView]:
        """Yield all waiters of the line; some may occur twice."""
        skip = 0
        while True:
            waiters = self.resource(resource, PAGE, skip).waiters
            yield from waiters
            if len(waiters) < PAGE:
                return
            skip += PAGE * 3 // 4  # the overlap: a waiter that leaves moves the rest up
