"""Define what an operator can do on a semaphore's page. Each action returns what it did, for the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from ..core.claim import HIGHEST
from ..errors import SemaphoreError
from ..ops import tables
from ..ops.answers import excepted, limit_told, stays_paused, until
from ..ops.inspector import Inspector
from ..ops.length import length
from ..ops.views import WaiterView, Where
from .text import meant


@dataclass(frozen=True, slots=True)
class Action:
    """Describes one thing that an operator can do, and the permission that it needs."""

    permission: str
    do: Callable[[Inspector, str, QueryDict], str]
    asks_first: str = ""  # the question to confirm; empty if one click is enough
    field: str = ""  # the form's field with the holder or tasks to act on
    destroys: bool = False  # what it ends never runs


def _limit(inspector: Inspector, resource: str, form: QueryDict) -> str:
    given = form.get("limit", "").strip()
    digits = given.lstrip("0") if given.isascii() and given.isdecimal() else ""
    # A limit of 0 would be a pause, which has a permission of its own.
    if not digits or len(digits) > len(str(HIGHEST)) or int(digits) > HIGHEST:
        msg = f"a limit is a whole number from 1 to {HIGHEST}, not {given[:20]!r}; to admit no task, pause it."
        raise SemaphoreError(msg)
    inspector.set_limit(resource, int(digits))
    others = excepted(inspector.own_limits(resource), int(digits))
    said = (f"Set the limit to {int(digits)}.", _still_paused(inspector, resource), others)
    return " ".join(filter(None, said))


def _clear(inspector: Inspector, resource: str, _form: QueryDict) -> str:
    inspector.set_limit(resource, None)
    paused = _still_paused(inspector, resource)
    return f"Cleared the limit: {_in_force(inspector, resource)}. {paused}".rstrip()


def _pause(inspector: Inspector, resource: str, form: QueryDict) -> str:
    asked = form.get("for", "")
    changed = inspector.pause(resource, length(asked) if asked else None)
    lasts = until(inspector.in_force(resource).pause_left)
    return (
        f"{'Paused' if changed else 'Nothing changed: it is paused'} {lasts}; no new task starts."
    )


def _resume(inspector: Inspector, resource: str, _form: QueryDict) -> str:
    changed = inspector.resume(resource)
    done = f"Resumed: {limit_told(inspector.in_force(resource))}."
    others = stays_paused(inspector.paused_keys(resource))
    return f"{done if changed else 'Nothing changed: it was not paused.'} {others}".rstrip()


def _take_away(inspector: Inspector, resource: str, form: QueryDict) -> str:
    permit = inspector.take_away(resource, meant(form.get("holder", "")))
    return f"Took away the permit of {permit.task_id}."


def _promote(inspector: Inspector, resource: str, form: QueryDict) -> str:
    asked = _tasks(form)
    views = inspector.still_waiting(resource, asked)
    in_line = [view.task_id for view in views if view.where is not Where.IN_TRANSIT]
    done = inspector.promote(resource, in_line or asked)  # the latter says why not
    return f"Promoted {_names(done)}.{_left(asked, done)}"


def _drop(inspector: Inspector, resource: str, form: QueryDict) -> str:
    asked = _tasks(form)
    waiting = [view.task_id for view in inspector.still_waiting(resource, asked)]
    done = inspector.drop(resource, waiting or asked)
    return f"Dropped {_names(done)}.{_left(asked, done)}"


def _purge(inspector: Inspector, resource: str, _form: QueryDict) -> str:
    return tables.purged(inspector.purge(resource)).replace("\n", " ")


def _tasks(form: QueryDict) -> list[str]:
    tasks = list(dict.fromkeys(meant(each) for each in form.getlist("task")))
    if not tasks:
        msg = "no task is selected."
        raise SemaphoreError(msg)
    return tasks


def _names(waiters: Sequence[WaiterView]) -> str:
    named = ", ".join(each.task_id for each in waiters)
    return f"the waiting task {named}" if len(waiters) == 1 else f"the waiting tasks {named}"


def _left(asked: Sequence[str], done: Sequence[WaiterView]) -> str:
    """Name the tasks of which nothing was done."""
    ids = {each.task_id for each in done}
    left = ", ".join(task_id for task_id in asked if task_id not in ids)
    return f" Not in line any more: {left}." if left else ""


def _still_paused(inspector: Inspector, resource: str) -> str:
    """Say that a pause stays, whatever its limit is now; return "" if there is none."""
    now = inspector.in_force(resource)
    return f"It stays paused {until(now.pause_left)}." if now.paused else ""


def _in_force(inspector: Inspector, resource: str) -> str:
    """Describe the limit that is in force after this resource's own limit was cleared."""
    now = inspector.in_force(resource)
    if now.set_by_operator:
        return f"{now.limit} is in force, set for the whole semaphore"
    if now.limit is None:
        own = "" if now.own_limit is None else f"; the tasks declare {now.own_limit}"
        return f"none is in force yet{own}"
    return f"{now.limit} is in force, as the tasks declare"


ACTIONS = {
    "limit": Action("limit", _limit),
    "clear": Action("limit", _clear),
    "pause": Action("pause", _pause),
    "resume": Action("pause", _resume),
    "take_away": Action(
        "take_away",
        _take_away,
        "Take this permit away? Its task keeps running until it is notified, and another may start immediately.",
        "holder",
    ),
    "promote": Action(
        "promote",
        _promote,
        "Promote these tasks? They run next, ahead of all other waiting tasks.",
        "task",
    ),
    "drop": Action(
        "drop",
        _drop,
        "Drop these waiting tasks? They end as REVOKED and never run.",
        "task",
        destroys=True,
    ),
    "purge": Action(
        "drop",
        _purge,
        "Purge all waiting tasks? They end as REVOKED and never run.",
        destroys=True,
    ),
}
