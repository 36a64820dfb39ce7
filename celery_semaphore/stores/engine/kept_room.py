"""Let a wait keep the room that it found while another claim is saturated: row H12, chapter 7 of the architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.refusal import Reason
from ..encoding import DEFAULT_MEAN, KEPT_ROOM, KEPT_ROOMS, microseconds
from .resource import KeptRoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..encoding import ResourceClaim
    from .resource import Resource
    from .state import StoreState
    from .stored_wait import StoredWait


def keep_room(
    state: StoreState, waiter: StoredWait, refusing: ResourceClaim, reason: Reason
) -> list[str]:
    """Keep the room of the other claims that would admit the wait, where permits do not come much sooner than its turn.

    Return the resources where it kept room before and keeps none now.
    """
    before = end_kept_room(state, waiter.resource_claims, waiter.nonce)
    others = [each for each in waiter.resource_claims if each is not refusing]
    for claim in others if reason is Reason.SATURATED else ():
        lasts = _time_to_keep(state, waiter, refusing, claim)
        if lasts is not None and not state.refusal(claim, waiter.ticket):
            ends = min(state.now + lasts, state.epoch.furthest(state.now))
            _keep(state.at(claim.resource), waiter, claim.weight, ends)
    return [name for name in before if waiter.nonce not in state.at(name).kept]


def _time_to_keep(
    state: StoreState, waiter: StoredWait, refusing: ResourceClaim, other: ResourceClaim
) -> int | None:
    """Return for how long the other claim is to keep its room until the turn at the one that refuses, or None.

    Where no permit was released yet, the mean of the other resource counts.
    """
    there, here = state.at(refusing.resource), state.at(other.resource)
    limit_there = state.limit(there.name, refusing.limit) or 0
    limit_here = state.limit(here.name, other.limit) or 0
    known = [at.mean for at in (there, here) if at.mean is not None] or [DEFAULT_MEAN]
    mean_there, mean_here = known[0], known[-1]
    if refusing.weight * mean_there * limit_here > 2 * other.weight * mean_here * limit_there:
        return None  # permits come more slowly there
    ahead = sum(each.in_line for each in there.line(before=waiter.ticket))
    turn = (ahead + refusing.weight) * mean_there / limit_there
    return microseconds(KEPT_ROOM) + 2 * int(turn) if turn <= 2 * mean_here else None


def _keep(at: Resource, waiter: StoredWait, weight: int, ends: int) -> None:
    if len(at.rooms_before(waiter.ticket)) < KEPT_ROOMS:
        at.kept[waiter.nonce] = KeptRoom(waiter.ticket, weight, ends)


def end_kept_room(state: StoreState, wanted: Sequence[ResourceClaim], nonce: str) -> list[str]:
    """Return the resources where this wait kept room."""
    return [claim.resource for claim in wanted if state.at(claim.resource).kept.pop(nonce, None)]
