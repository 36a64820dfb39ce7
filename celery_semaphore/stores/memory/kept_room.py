"""Let a wait keep the room that it found while another claim is saturated: row H12, chapter 7 of the architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Reason
from ..encoding import DEFAULT_MEAN, KEPT_ROOM, KEPT_ROOMS, microseconds
from .resource import KeptRoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..encoding import ResourceClaim
    from .resource import Resource
    from .state import MemoryState
    from .stored_wait import StoredWait


def keep_room(
    state: MemoryState, waiter: StoredWait, refusing: ResourceClaim, reason: Reason
) -> list[str]:
    """Keep the room of the other claims that would admit the wait, if its turn where it is refused comes soon.

    Return the resources where it kept room before and keeps none now.
    """
    before = end_kept_room(state, waiter.resource_claims, waiter.nonce)
    if reason is Reason.SATURATED:
        turn = _turn(state, waiter, refusing)
        lasts = microseconds(KEPT_ROOM) + 2 * int(turn)
        ends = min(state.now + lasts, state.epoch.furthest(state.now))
        for claim in waiter.resource_claims:
            at = state.at(claim.resource)
            if claim is refusing or turn > _mean(at) or state.refusal(claim, waiter.ticket):
                continue
            if len(at.rooms_before(waiter.ticket)) < KEPT_ROOMS:
                at.kept[waiter.nonce] = KeptRoom(waiter.ticket, claim.weight, ends)
    return [name for name in before if waiter.nonce not in state.at(name).kept]


def end_kept_room(state: MemoryState, wanted: Sequence[ResourceClaim], nonce: str) -> list[str]:
    """Return the resources where this wait kept room."""
    return [claim.resource for claim in wanted if state.at(claim.resource).kept.pop(nonce, None)]


def _turn(state: MemoryState, waiter: StoredWait, refusing: ResourceClaim) -> float:
    """Return how long its turn is expected to take at the resource that refuses it."""
    at, limit = state.at(refusing.resource), state.limit(refusing.resource, refusing.limit)
    return (len(at.line(before=waiter.ticket)) + refusing.weight) * _mean(at) / (limit or 1)


def _mean(at: Resource) -> float:
    return float(DEFAULT_MEAN if at.mean is None else at.mean)
