"""Count what is at many resources, without its holders and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.formats import check_format
from ...core.totals import Totals
from ..encoding import seconds
from .outbox import outgoing
from .resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .state import StoreState


def totals(state: StoreState, now: int, names: Sequence[str]) -> list[Totals]:
    """Count at this instant; a call that changes nothing begins no epoch."""
    check_format("the store", state.epoch.format)
    state.now = now
    return [_totals_of(state, name) for name in names]


def _totals_of(state: StoreState, name: str) -> Totals:
    at = state.resources.get(name) or Resource(name)
    live = [entry for entry in at.entries() if not state.is_over(entry)]
    line = at.line()
    parked = sum(waiter.payload is not None for waiter in line)
    in_transit = sum(waiter.in_transit for waiter in line)
    to_send = list(outgoing(at))
    return Totals(
        name,
        state.limit_behind(name),
        state.decisions.limit(name) is not None,
        sum(entry.weight for entry in live if not entry.granted),
        sum(entry.weight for entry in live if entry.granted),
        parked,
        len(line) - parked - in_transit,
        in_transit,
        sum(waiter.aside for waiter in line),
        _since_the_first(state, (waiter.ticket.place for waiter in line)),
        len(to_send),
        _since_the_first(
            state, (entry.token for waiter, entry in to_send if entry and not waiter.ended)
        ),
        state.decisions.paused_until(name, state.now) is not None,
        sum(room.weight for room in at.kept.values() if state.now < room.ends),
        None if at.mean is None else seconds(at.mean),
    )


def _since_the_first(state: StoreState, times: Iterable[int]) -> float | None:
    first = min(times, default=None)
    return None if first is None else seconds(max(0, state.now - first))  # the clock may step back
