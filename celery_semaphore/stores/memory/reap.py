"""End what is overdue, in the resources that were reaped longest ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoding import ResourceClaim

if TYPE_CHECKING:
    from .state import MemoryState


def reaped(state: MemoryState, limit: int) -> list[ResourceClaim]:
    """Reap at most ``limit`` resources, and return them; delete those that idled for long."""
    forgotten = state.now - 10 * state.lease
    for name, at in list(state.resources.items()):
        if at.idle() and at.touched < forgotten:
            del state.resources[name]
    used = [at for at in state.resources.values() if not at.idle()]
    used.sort(key=lambda at: at.reaped_at if at.reaped_at <= state.now else 0)
    for at in used[:limit]:
        at.reaped_at = state.now
    wanted = [ResourceClaim(at.name, 0, 0) for at in used[:limit]]
    state.sweep(wanted)
    return wanted
