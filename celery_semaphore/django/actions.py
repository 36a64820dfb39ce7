"""Define what an operator can do on a semaphore's page. Each action returns what it did, for the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..core.permit import HIGHEST
from ..errors import SemaphoreError
from ..ops.inspector import Inspector
from ..ops.tables import excepted
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
    # A pause is a limit of 0, with a permission of its own.
    if not digits or len(digits) > len(str(HIGHEST)) or int(digits) > HIGHEST:
        msg = f"a limit is a whole number from 1 to {HIGHEST}, not {given[:20]!r}; to admit no task, pause it."
        raise SemaphoreError(msg)
    _refuse_paused(inspector, resource)
    inspector.set_limit(int(digits), resource)
    return _with_exceptions(inspector, resource, f"Set the limit to {int(digits)}.", int(digits))


def _clear(inspector: Inspector, resource: str, _form: Form) -> str:
    _refuse_paused(inspector, resource)
    inspector.set_limit(None, resource)
    return f"Cleared the limit: {_in_force(inspector, resource)}."


def _pause(inspector: Inspector, resource: str, _form: Form) -> str:
    inspector.pause(resource)
    return _with_exceptions(inspector, resource, "Paused: no new task starts.", 0)


def _resume(inspector: Inspector, resource: str, _form: Form) -> str:
    inspector.resume(resource)
    return f"Resumed: {_in_force(inspector, resource)}."


def _release(inspector: Inspector, resource: str, form: Form) -> str:
    permit = inspector.release(meant(form.get("holder", "")), resource)
    return f"Took the permit of {permit.task_id} away."


def _next(inspector: Inspector, resource: str, form: Form) -> str:
    [waiter] = inspector.promote([meant(form.get("task", ""))], resource)
    return f"Let the waiting task {waiter.task_id} run next."


def _drop(inspector: Inspector, resource: str, form: Form) -> str:
    [waiter] = inspector.drop([meant(form.get("task", ""))], resource)
    return f"Dropped the waiting task {waiter.task_id}."


def _refuse_paused(inspector: Inspector, resource: str) -> None:
    if inspector.is_paused(resource):
        msg = "it is paused: resume it first."
        raise SemaphoreError(msg)


def _with_exceptions(inspector: Inspector, resource: str, done: str, limit: int) -> str:
    """Append the keys at which this limit is not in force."""
    return f"{done} {excepted(inspector.own_limits(resource), limit)}".rstrip()


def _in_force(inspector: Inspector, resource: str) -> str:
    """Describe the limit that is in force after this resource's own limit was cleared."""
    now = inspector.in_force(resource)
    if now.set_by_operator:
        paused = "the whole semaphore is still paused"
        return f"{now.limit} is in force, set for the whole semaphore" if now.limit else paused
    if now.limit is None:
        return "what the tasks declare is in force"
    return f"{now.limit} is in force, as the tasks declare"


ACTIONS = {
    "limit": Action("limit", _limit),
    "clear": Action("limit", _clear),
    "pause": Action("pause", _pause),
    "resume": Action("pause", _resume),
    "release": Action(
        "release",
        _release,
        "Take this permit away? Its task runs on until it is notified, and another may start at once.",
        "holder",
    ),
    "next": Action("next", _next, "Let this task run next, before all others that wait?", "task"),
    "drop": Action(
        "drop", _drop, "Drop this waiting task? It ends as REVOKED and never runs.", "task"
    ),
}
