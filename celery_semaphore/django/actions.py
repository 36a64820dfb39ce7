"""Define what an operator can do on a semaphore's page. Each action returns what it did, for the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..core.permit import HIGHEST
from ..errors import SemaphoreError
from ..ops.answers import excepted, limit_told, stays_paused, until
from ..ops.inspector import Inspector
from ..ops.length import length
from .text import meant

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Action:
    """Describes one thing that an operator can do, and the permission that it needs."""

    permission: str
    do: Callable[[Inspector, str, Form], str]
    asks_first: str = ""  # the question to confirm; empty if one click is enough
    field: str = ""  # the form's field with the holder or task to act on


def _limit(inspector: Inspector, resource: str, form: Form) -> str:
    given = form.get("limit", "").strip()
    digits = given.lstrip("0") if given.isascii() and given.isdecimal() else ""
    # A limit of 0 would be a pause, which has a permission of its own.
    if not digits or len(digits) > len(str(HIGHEST)) or int(digits) > HIGHEST:
        msg = f"a limit is a whole number from 1 to {HIGHEST}, not {given[:20]!r}; to admit no task, pause it."
        raise SemaphoreError(msg)
    inspector.set_limit(int(digits), resource)
    others = excepted(inspector.own_limits(resource), int(digits))
    said = (f"Set the limit to {int(digits)}.", _still_paused(inspector, resource), others)
    return " ".join(filter(None, said))


def _clear(inspector: Inspector, resource: str, _form: Form) -> str:
    inspector.set_limit(None, resource)
    paused = _still_paused(inspector, resource)
    return f"Cleared the limit: {_in_force(inspector, resource)}. {paused}".rstrip()


def _pause(inspector: Inspector, resource: str, form: Form) -> str:
    asked = form.get("for", "")
    changed = inspector.pause(resource, length(asked) if asked else None)
    lasts = until(inspector.in_force(resource).pause_left)
    return (
        f"{'Paused' if changed else 'Nothing changed: it is paused'} {lasts}; no new task starts."
    )


def _resume(inspector: Inspector, resource: str, _form: Form) -> str:
    changed = inspector.resume(resource)
    done = f"Resumed: {limit_told(inspector.in_force(resource))}."
    others = stays_paused(inspector.paused_keys(resource))
    return f"{done if changed else 'Nothing changed: it was not paused.'} {others}".rstrip()


def _release(inspector: Inspector, resource: str, form: Form) -> str:
    permit = inspector.release(meant(form.get("holder", "")), resource)
    return f"Took away the permit of {permit.task_id}."


def _next(inspector: Inspector, resource: str, form: Form) -> str:
    [waiter] = inspector.promote([meant(form.get("task", ""))], resource)
    return f"Let the waiting task {waiter.task_id} run next."


def _drop(inspector: Inspector, resource: str, form: Form) -> str:
    [waiter] = inspector.drop([meant(form.get("task", ""))], resource)
    return f"Dropped the waiting task {waiter.task_id}."


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
    "release": Action(
        "release",
        _release,
        "Take this permit away? Its task keeps running until it is notified, and another may start immediately.",
        "holder",
    ),
    "next": Action(
        "next", _next, "Let this task run next, ahead of all other waiting tasks?", "task"
    ),
    "drop": Action(
        "drop", _drop, "Drop this waiting task? It ends as REVOKED and never runs.", "task"
    ),
}
