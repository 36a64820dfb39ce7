"""Find the waits of a task, by its id: see v1/waits_of.sql."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.snapshot import Waiter
from ...core.task_wait import WAITS_OF_TASK, TaskWait, WaitState
from ...core.wait import Kind
from ..encoding import seconds, ticket_of, unpacked
from .names import original, stored

if TYPE_CHECKING:
    from .connection import Row
    from .runner import Runner


def waits_of(runner: Runner, task_id: str) -> list[TaskWait]:
    found = runner.run("waits_of", stored(task_id), WAITS_OF_TASK) if task_id else []
    return sorted(map(_wait, found), key=lambda each: each.began)


def _wait(row: Row) -> TaskWait:
    _, resource, claims, ticket, kind, weight, before, due, session, reachable, *more = row
    limit, state, granted_until = more
    waiter = Waiter(
        ticket_of(original(ticket)),
        Kind(kind),
        int(weight),
        int(before),
        seconds(due),
        limit is not None and 0 < int(limit) < int(weight),
        original(session),
        reachable == "t",
    )
    until = None if granted_until is None else seconds(granted_until)
    return TaskWait(resource, unpacked(claims), waiter, WaitState(state), until)
