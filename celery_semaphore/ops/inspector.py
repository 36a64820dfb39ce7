"""Provide the Inspector: the one API for operators, used by the command line and by the admin's pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

from ..core.claim import Claim
from ..core.decision import Decision
from ..core.key import any_key_of, names_of, resource_name, semaphore_of
from ..core.store import Store
from ..core.totals import Totals
from ..core.wait import Kind
from ..errors import SemaphoreError
from ..settings import Settings
from .control import ask_workers, revoke
from .directory import Directory, check_text, declared_by, describe, keyed_by
from .reader import PAGE, Reader
from .replies import NOT_ASKED, Replies, named
from .task_finder import TaskFinder, semaphores_of
from .task_view import TaskView
from .views import (
    KeyView,
    PermitView,
    Purged,
    ResourceView,
    SemaphoreView,
    WaiterView,
    limits_of,
    recovering_for,
)
from .waiting_place import WaitingPlace

ASK = 1.0  # seconds to wait for the workers' answers, as Celery's own inspect does

AskWorkers = Callable[[Collection[str]], Replies]
Revoke = Callable[[Collection[str]], list[str]]
Purge = Callable[[str], list[str]]
Place = Callable[[str], str | None]
SemaphoresOf = Callable[[str], Collection[str] | None]


class Inspector:
    """Shows and changes the semaphores of one store; each call reads the store anew.

    A resource is one key, or a whole semaphore, by its name in the store; ``find`` returns it for their names.
    The methods raise ``StoreUnavailable`` while the store is out of reach, and ``SemaphoreError`` with the reason
    if something cannot be done.
    """

    def __init__(
        self,
        store: Store,
        *,
        declared: Mapping[str, int | None] | None = None,
        keyed: Collection[str] = (),
        ask: AskWorkers = lambda _: Replies(),
        revoke: Revoke = lambda _: [],
        purge: Purge = lambda _: [],
        place: Place = lambda _: None,
        semaphores_of: SemaphoresOf = lambda _: None,
        result: Place = lambda _: None,
    ) -> None:
        self._store = store
        self._declared = {resource_name(of, None): limit for of, limit in (declared or {}).items()}
        self._directory = Directory(store, self._declared)
        self._keyed = {resource_name(of, None) for of in keyed}
        self._reader = Reader(store, self._declared, self._keyed)
        self._ask = ask
        self._revoke = revoke
        self._purge = purge
        self._place = place
        self._tasks = TaskFinder(store, self._reader, ask, semaphores_of, result)

    @classmethod
    def of(cls, app: Any, *, timeout: float = ASK) -> Inspector:
        """Return the inspector of a Celery app; ``timeout`` is how long its workers are asked, with 0 not at all."""
        settings = Settings.from_app(app)
        store = settings.open_store()
        return cls(
            store,
            declared=declared_by(app.tasks.values()),
            keyed=keyed_by(app.tasks.values()),
            ask=partial(ask_workers, app, timeout=timeout) if timeout else _ask_none,
            revoke=partial(revoke, app, timeout=timeout or ASK),
            purge=partial(purge_parked, app, store),
            place=WaitingPlace(app, settings, store).of,
            semaphores_of=partial(semaphores_of, app),
            result=partial(_result, app),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the store."""
        self._store.close()

    # -- looking

    def semaphores(self) -> list[SemaphoreView]:
        """List all semaphores in use, declared by a task of the app, limited or paused by an operator, by name."""
        decisions, names = self._store.decisions(), sorted(self._directory.semaphores())
        wholes = list(self._store.snapshots(names))  # first: they begin an epoch where that is due
        seen: dict[str, list[Totals]] = {}
        for each in self._reader.totals(self._store.resources()):
            seen.setdefault(semaphore_of(each.resource), []).append(each)
        elsewhere = zip(wholes, self._store.snapshots(map(any_key_of, names)), strict=True)
        recovering = max(filter(None, map(recovering_for, wholes)), default=None)
        of = partial(SemaphoreView.of, decisions=decisions, recovering=recovering)
        views = [
            of(name, seen.get(name, []), elsewhere=both, own_limit=self._declared.get(name))
            for name, both in zip(names, elsewhere, strict=True)
        ]
        return [replace(view, waiting_place=self._place(view.resource)) for view in views]

    def keys(self, semaphore: str) -> list[KeyView]:
        """List the keys in use, limited or paused by an operator; most waiters first."""
        self.check(semaphore)
        return self._reader.keys(semaphore)

    def resource(self, resource: str, *, waiters: int = 100, skip: int = 0) -> ResourceView:
        """Show one key, or a semaphore without keys: its permits, and so many waiters after the first ``skip``."""
        self.check(resource)
        view = self._reader.resource(resource, waiters, skip)
        view = replace(view, waiting_place=self._place(resource))
        ids = {p.task_id for p in view.permits} | {w.task_id for w in view.waiters}
        return named(view, self._ask(ids)) if ids else view

    def why(self, task_id: str, *, everywhere: bool = True) -> TaskView:
        """Show what this task waits for and why, else its permits, else what workers and its result say of it.

        If no worker names the task, its permits are looked for at all keys in use, which takes long where these are
        many; or, if not ``everywhere``, nowhere.
        """
        check_text("task_id", task_id, "it is the id of a task")
        if not task_id.strip():
            msg = f"task_id={task_id!r} is empty: give the id of a task, as in its log lines and its AsyncResult."
            raise SemaphoreError(msg)
        return self._tasks.find(task_id, everywhere=everywhere)

    def permit_of(self, resource: str, holder: str) -> PermitView:
        """Return the permit of this holder, or of this task; raise an error if it cannot be taken away."""
        check_text("holder", holder, "the id of a task, or a holder as it is shown")
        mine = [
            p
            for p in self._reader.resource(resource, 0).permits
            # A grant has no holder yet, and the one with the name of its nonce may have a permit, too.
            if holder == p.task_id or (holder == p.holder and not p.granted)
        ]
        if len(mine) != 1:
            names = ", ".join(permit.holder for permit in mine)
            why = (
                f"has several: name one of {names}."
                if mine
                else f"has no permit{self._reader.hint(resource)}."
            )
            msg = f"{describe(resource)}: {holder} {why}"
            raise SemaphoreError(msg)
        permit = mine[0]
        if permit.granted:
            msg = (
                f"{describe(resource)}: the permit is kept for {permit.task_id}, which is on its way;"
                f" if it does not come, the permit is free in {permit.lease_left:.0f} s."
            )
            raise SemaphoreError(msg)
        return permit

    def tasks(self, resource: str, task_ids: Collection[str]) -> list[WaiterView]:
        """Return these waiting tasks; raise an error for the first that does not wait, or is no task."""
        waiting = self._reader.waiting_tasks(resource, task_ids)
        for view in waiting:
            if view.kind is Kind.BLOCK:
                msg = f"{view.task_id} is not a task but a process that waits outside tasks."
                raise SemaphoreError(msg)
        return waiting

    def still_waiting(self, resource: str, task_ids: Collection[str]) -> list[WaiterView]:
        """Return those of these tasks that wait, in the order of the line; others may have begun by now."""
        return self._reader.still_waiting(resource, task_ids)

    def waiting(self, resource: str) -> int:
        """Count the waiters of a key, or of a semaphore with all its keys."""
        return sum(seen.waiting for seen in self._reader.totals(self._reader.parts(resource)))

    def in_force(self, resource: str) -> ResourceView:
        """Return its limit and its pause, also of an unknown semaphore, without asking the workers."""
        return self._reader.resource(resource, 0)

    def is_paused(self, resource: str) -> bool:
        """Return True if an operator paused this very resource, not only its semaphore."""
        return self.decided(resource).pause is not None

    def decided(self, resource: str) -> Decision:
        """Return what operators decided for this very resource, not for its semaphore."""
        return self._store.decisions().get(resource, Decision())

    def has_no_keys(self, resource: str) -> bool:
        """Return True if tasks of this app use this semaphore, and none of them with a key."""
        whole = semaphore_of(resource)
        return whole in self._declared and whole not in self._keyed

    def is_paused_with_its_semaphore(self, resource: str) -> bool:
        """Return True if this is a key, and its whole semaphore is paused."""
        whole = semaphore_of(resource)
        return whole != resource and self.is_paused(whole)

    def paused_keys(self, resource: str) -> list[str]:
        """Return the keys of a semaphore that have a pause of their own."""
        decisions = self._store.decisions().items()
        paused = (at for at, each in decisions if each.pause and at != resource)
        return sorted(names_of(at)[1] or "" for at in paused if semaphore_of(at) == resource)

    def own_limits(self, resource: str) -> dict[str, int]:
        """Return the limits that were set for single keys, by key; they override the semaphore's limit."""
        mine = (
            (names_of(at)[1], limit)
            for at, limit in limits_of(self._store.decisions()).items()
            if at != resource and semaphore_of(at) == resource
        )
        return {key or "": limit for key, limit in sorted(mine)}

    def check(self, resource: str) -> None:
        """Raise ``UnknownSemaphore`` for a name that is likely to be misspelt."""
        self._directory.check(resource)

    def find(self, semaphore: str, key: str | None = None, *, create: bool = False) -> str:
        """Return the resource of these names; raise ``UnknownSemaphore`` for a name that is likely to be misspelt.

        With ``create`` the name may be new: a semaphore that is used outside tasks only is known while it is in use.
        A long name may be given as it is shown, while it is known.
        """
        resource = self._directory.find(semaphore, key)
        if not create:
            self.check(resource)
        return resource

    def search(self, text: str) -> list[str]:
        """Return the resources in use, limited or declared with this text in their names, in any case."""
        check_text("text", text, "it is a part of a name")
        return self._directory.search(text)

    def nearest_key(self, resource: str) -> str | None:
        """Return the known key of the same semaphore with a name most like this one's; None if none is alike."""
        return self._directory.nearest_key(resource)

    # -- changing

    def set_limit(self, resource: str, limit: int | None) -> None:
        """Put a limit in force until it is cleared with None. Permits that are held stay, and so does a pause.

        A store that loses its data loses this limit, too.
        """
        if limit == 0:
            msg = f"{describe(resource)}: a limit of 0 admits no task; pause it, which keeps its limit."
            raise SemaphoreError(msg)
        self._store.set_limit(limit, resource)

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        """Admit no new task until it is resumed, ``lasts`` seconds are over, or the store loses its data.

        It pauses all keys of a semaphore. If it is paused twice, the later end counts. Return False if nothing changed.
        """
        return self._store.pause(resource, lasts)

    def resume(self, resource: str) -> bool:
        """End a pause, with the limit from before it; return False if it was not paused.

        Keys with a pause of their own stay paused. Raise an error for a key if its whole semaphore is paused.
        """
        if self.is_paused_with_its_semaphore(resource):
            whole = describe(semaphore_of(resource))
            msg = f"{describe(resource)} stays paused with all of {whole}: resume that. Nothing changed."
            raise SemaphoreError(msg)
        was_paused = self.is_paused(resource)
        self._store.resume(resource)
        return was_paused

    def take_away(self, resource: str, holder: str) -> PermitView:
        """Take a permit away, by its holder or its task's id. The task keeps running, and notices at its next renewal.

        If the task holds other semaphores, it loses them at that renewal.
        """
        permit = self.permit_of(resource, holder)
        self._store.release(permit.holder, [Claim(*names_of(resource), 0, permit.weight, resource)])
        return permit

    def promote(self, resource: str, task_ids: Collection[str]) -> list[WaiterView]:
        """Let these tasks run next, before all other waiters; several run in the order of their arrival.

        Raise an error if one of them is not in line, after the others were moved. A task that waits for several
        semaphores goes first where it waits now, and wherever it has to wait after that.
        """
        waiting = self.tasks(resource, task_ids)
        promoted = self._store.promote([view.ticket for view in waiting], resource)
        left = [view.task_id for view in waiting if view.ticket.nonce not in promoted]
        if left:
            others = " The others run next." if len(left) < len(waiting) else ""
            why = "not in line, but in transit or granted a permit"
            msg = f"{describe(resource)}: {why}: {', '.join(left)}.{others}"
            raise SemaphoreError(msg)
        return waiting

    def drop(self, resource: str, task_ids: Collection[str]) -> list[WaiterView]:
        """Revoke these waiting tasks: they end as REVOKED, parked ones at the workers' next sweep.

        A task in transit ends when its message is delivered.
        """
        waiting = self.tasks(resource, task_ids)
        if not self._revoke(task_ids):
            msg = "no worker answered, so nothing was dropped: only running workers remember what is revoked."
            raise SemaphoreError(msg)
        return waiting

    def purge(self, resource: str) -> Purged:
        """End all tasks that wait for a semaphore, or for one key, as REVOKED.

        Parked tasks end immediately, without workers. The others are revoked if any worker answers: kept tasks end
        within seconds, tasks in transit when their messages are delivered.
        """
        self.check(resource)
        parts = self._reader.parts(resource)
        ended = [task_id for name in parts for task_id in self._purge(name)]
        line = (view for name in parts for view in self._reader.line(name))
        kinds = {view.task_id: view.kind for view in line}
        others = [task_id for task_id, kind in kinds.items() if kind is not Kind.BLOCK]
        revoked = list[str]()
        for start in range(0, len(others), PAGE):
            some = others[start : start + PAGE]
            try:
                heard = self._revoke(some)
            except SemaphoreError:  # the parked ones have ended, which must be said
                heard = []
            if not heard:
                break
            revoked += some
        return Purged(ended, revoked, len(others) - len(revoked), len(kinds) - len(others))


def _ask_none(_ids: Collection[str]) -> Replies:
    return Replies(problem=NOT_ASKED)


def purge_parked(app: Any, store: Store, resource: str) -> list[str]:
    """End the tasks that are parked at this resource; see ``purge``."""
    from .purge import purge  # imported late: it loads the worker's code

    return purge(app, store, resource)


def _result(app: Any, task_id: str) -> str | None:
    from .task_result import result_of  # likewise

    return result_of(app, task_id)
