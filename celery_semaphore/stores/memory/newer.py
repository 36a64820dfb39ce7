"""Renew and release permits that this release wrote, in a store of a newer format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.permit import MessageId, Permit, Renewal
from ..encoding import ResourceClaim, resource_claims
from .messages import note_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import MemoryState


def renewed_in_newer(state: MemoryState, permit: Permit) -> Renewal:
    """Extend the lease, and write nothing else.

    A lost permit is not restored, nor confirmed in a new epoch: that would write a record in an old format, and only
    newer processes can tell whether it fits.
    """
    wanted = resource_claims(permit.claims)
    if not all(_is_there(state, permit.holder, claim) for claim in wanted):
        return Renewal.LOST
    for claim in wanted:
        holders = state.at(claim.resource).holders
        holders[permit.holder] = replace(holders[permit.holder], ends=state.now + state.lease)
    return Renewal.OK


def _is_there(state: MemoryState, holder: str, claim: ResourceClaim) -> bool:
    entry = state.at(claim.resource).holders.get(holder)
    if entry is None or entry.ends <= state.now:
        return False
    return (entry.weight, entry.epoch) == (claim.weight, state.epoch.id)


def release_in_newer(
    state: MemoryState, holder: str, wanted: Sequence[ResourceClaim], message_id: MessageId | None
) -> None:
    """R1: release the permit; waits may have another layout by now, so a newer process hands on."""
    for claim in wanted:
        at = state.at(claim.resource)
        if at.holders.pop(holder, None):
            at.mark_released(holder, state.now + state.lease)
    note_end(state, wanted[0].resource, message_id, holder)
