"""Actions: what an operator can do on a semaphore's page. Each answers what it did, for the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import SemaphoreError
from ..ops.inspector import Inspector

Names = tuple[str, str | None]  # semaphore and key
Form = Mapping[str, str]

HIGHEST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Action:
    """One of the things that can be done, and the permission that it needs."""

    permission: str
    do: Callable[[Inspector, Names, Form], str]
    asks_first: str = ""  # the question, where a click alone shall not do it
    field: str = ""  # of the form: what it is about


def _limit(inspector: Inspector, names: Names, form: Form) -> str:
    given = form.get("limit", "").strip()
    # A pause is a limit of 0, with a permission of its own.
    if not (given.isascii() and given.isdecimal() and 0 < int(given[:12]) <= HIGHEST):
        msg = f"a limit is a whole number from 1 to {HIGHEST}, not {given!r}; to let nobody in, pause it."
        raise SemaphoreError(msg)
    _refuse_paused(inspector, names)
    inspector.set_limit(int(given), *names)
    return f"Set the limit to {int(given)}."


def _clear(inspector: Inspector, names: Names, _form: Form) -> str:
    _refuse_paused(inspector, names)
    inspector.set_limit(None, *names)
    return "Cleared the limit: what the tasks declare is in force again."


def _pause(inspector: Inspector, names: Names, _form: Form) -> str:
    inspector.pause(*names)
    return "Paused: nobody new runs."


def _resume(inspector: Inspector, names: Names, _form: Form) -> str:
    inspector.resume(*names)
    return "Resumed: what the tasks declare is in force again."


def _release(inspector: Inspector, names: Names, form: Form) -> str:
    permit = inspector.release(form.get("holder", ""), *names)
    return f"Took the permit of {permit.task_id} away."


def _drop(inspector: Inspector, names: Names, form: Form) -> str:
    [waiter] = inspector.drop([form.get("task", "")], *names)
    return f"Dropped the waiting task {waiter.task_id}."


def _refuse_paused(inspector: Inspector, names: Names) -> None:
    if inspector.is_paused(*names):
        msg = "it is paused: resume it first."
        raise SemaphoreError(msg)


ACTIONS = {
    "limit": Action("limit", _limit),
    "clear": Action("limit", _clear),
    "pause": Action("pause", _pause),
    "resume": Action("pause", _resume),
    "release": Action(
        "release",
        _release,
        "Take this permit away? Its task runs on until it learns of it, and another may start at once.",
        "holder",
    ),
    "drop": Action(
        "drop", _drop, "Drop this waiting task? It ends as REVOKED and never runs.", "task"
    ),
}
