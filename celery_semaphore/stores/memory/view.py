"""Make a snapshot of one resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Held, Snapshot, Ticket
from ..encoding import seconds
from .resource import Resource

if TYPE_CHECKING:
    from .state import MemoryState
    from .waiter import Waiter


def view(state: MemoryState, name: str, most: int, skip: int) -> Snapshot:
    at = state.resources.get(name) or Resource(name)
    limit = state.limit(name)
    held = _held(state, at)
    line = at.line()
    return Snapshot(
        name,
        limit,
        name in state.limits or name.partition("/")[0] in state.limits,
        sum(one.weight for one in held),
        None if at.mean is None else seconds(round(at.mean)),
        tuple(held),
        tuple(
            _ticket(state, at, limit, n, w) for n, w in enumerate(line[skip : skip + most], skip)
        ),
        len(line),
        seconds(state.now),
    )


def _held(state: MemoryState, at: Resource) -> list[Held]:
    permits = [(holder, entry) for holder, entry in at.holders.items()]
    grants = [(entry.ticket.text, entry) for entry in at.grants.values() if entry.ticket]
    live = [
        Held(name, e.token, e.weight, seconds(e.since), seconds(e.ends), e.granted)
        for name, e in permits + grants
        if e.ends > state.now or state.in_grace
    ]
    return sorted(live, key=lambda one: one.token)


def _ticket(
    state: MemoryState, at: Resource, limit: int | None, position: int, waiter: Waiter
) -> Ticket:
    ticket, weight = waiter.ticket, waiter.weight_at(at.name)
    return Ticket(
        ticket.text,
        waiter.kind,
        weight,
        ticket.priority,
        position,
        seconds(ticket.place),
        seconds(waiter.due),
        limit is not None and 0 < limit < weight,
        waiter.session,
        state.is_reachable(waiter),
    )
