"""Find the waits of a task, by its id: W1 to W5 of docs/maintain/architecture.md."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.task_wait import WAITS_OF_TASK, TaskWait, WaitState
from ..encoding import seconds
from .view import waiter_of

if TYPE_CHECKING:
    from .resource import Entry, Resource
    from .state import StoreState
    from .stored_wait import StoredWait


def waits_of(state: StoreState, task_id: str) -> list[TaskWait]:
    if not task_id:
        return []
    found = [
        _wait(state, at, wait, standing)
        for at in state.catalogue.with_waits_of(task_id)
        for wait in at.waits_of(task_id)
        if (standing := _state_of(state, at, wait))
    ]
    return sorted(found, key=lambda each: each.began)[:WAITS_OF_TASK]


def _wait(state: StoreState, at: Resource, wait: StoredWait, standing: WaitState) -> TaskWait:
    position = len(at.line(before=wait.ticket))
    waiter = waiter_of(state, at, state.limit_behind(at.name), position, wait)
    if standing is WaitState.IN_TRANSIT:
        waiter = replace(
            waiter, reachable=False
        )  # its grant may be over, which no call has noticed
    grant = at.grants[wait.nonce] if standing is WaitState.GRANTED else None
    until = seconds(grant.ends) if grant else None
    return TaskWait(at.name, wait.claims, waiter, standing, until)


def _state_of(state: StoreState, at: Resource, wait: StoredWait) -> WaitState | None:
    grant: Entry | None = at.grants.get(wait.nonce)
    if grant and not state.is_over(grant):
        return WaitState.GRANTED  # W1
    if at.was_sent(wait.nonce):
        return None  # W5
    if wait.ended:
        return WaitState.ENDED  # W4
    if wait.in_transit or (grant and wait.payload is None):
        return WaitState.IN_TRANSIT  # W2
    return WaitState.SET_ASIDE if wait.aside else WaitState.IN_LINE  # W3
