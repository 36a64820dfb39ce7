"""Make a snapshot of one resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.snapshot import Held, Snapshot, Waiter
from ..decisions import until
from ..encoding import seconds
from .resource import Resource

if TYPE_CHECKING:
    from .state import StoreState
    from .stored_wait import StoredWait


def view(state: StoreState, name: str, most: int, skip: int) -> Snapshot:
    at = state.resources.get(name) or Resource(name)
    limit, paused_until = state.limit_behind(name), state.decisions.paused_until(name, state.now)
    held = _held(state, at)
    line, lasting = at.line(), at.lasting(state.now, state.epoch.furthest(state.now))
    return Snapshot(
        name,
        limit,
        state.decisions.limit(name) is not None,
        sum(one.weight for one in held),
        None if at.mean is None else seconds(round(at.mean)),
        tuple(held),
        tuple(
            waiter_of(state, at, limit, n, w) for n, w in enumerate(line[skip : skip + most], skip)
        ),
        len(line),
        seconds(state.now),
        seconds(state.epoch.grace_until) if state.in_grace else None,
        until(paused_until),
        state.declared(name),
        sum(room.weight for room in lasting.values()),
    )


def _held(state: StoreState, at: Resource) -> list[Held]:
    live = [
        Held(name, e.token, e.weight, seconds(e.since), seconds(e.ends), e.ticket)
        for name, e in (*at.holders.items(), *at.grants.items())
        if not state.is_over(e)
    ]
    return sorted(live, key=lambda one: one.token)


def waiter_of(
    state: StoreState, at: Resource, limit: int | None, position: int, record: StoredWait
) -> Waiter:
    weight = record.weight_at(at.name)
    return Waiter(
        record.ticket,
        record.kind,
        weight,
        position,
        seconds(record.due),
        limit is not None and 0 < limit < weight,
        record.session,
        state.is_reachable(record),
    )
