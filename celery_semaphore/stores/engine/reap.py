"""End what is overdue, in the resources that were reaped longest ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoding import ResourceClaim

if TYPE_CHECKING:
    from .state import StoreState


def reaped(state: StoreState, limit: int) -> list[ResourceClaim]:
    """Reap at most ``limit`` resources, and return them; delete those that idled for long."""
    state.catalogue.drop_idle(state.now - 10 * state.lease)
    overdue = state.catalogue.overdue(limit, state.now)
    for at in overdue:
        at.reaped_at = state.now
    wanted = [ResourceClaim(at.name, 0, 0) for at in overdue]
    state.sweep(wanted)
    return wanted
