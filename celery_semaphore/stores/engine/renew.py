"""Renew a permit, or restore one that the store lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Permit, Renewal
from ..encoding import ResourceClaim, microseconds, resource_claims
from .resource import Own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import StoreState


def renewed(state: StoreState, permit: Permit) -> Renewal:
    wanted = resource_claims(permit.claims)
    state.end_overdue(wanted)
    part, whole = state.permit_of(wanted, permit.holder)
    # A store that lost only the take-up of the grant still has the grant.
    taken_up = None if whole else state.granted(wanted[0].resource, permit.token)
    own = Own(permit.holder, taken_up)
    if not whole and not _is_forgotten(state, permit, wanted, own):
        if part:
            state.end_part(wanted, permit.holder)
        return Renewal.LOST
    names = [claim.resource for claim in wanted]
    ended_by = state.epoch.permits_ended_by(state.now)
    lately = ended_by < state.epoch.grace_until + state.epoch.slowest(state.now)  # A21
    restored = [name for name in names if lately and not state.at(name).survived(own)]
    if taken_up:
        state.taken_up(wanted, taken_up)
    since = microseconds(permit.acquired_at)
    state.write(wanted, permit.holder, permit.token, since, restored)
    return Renewal.OK if whole else Renewal.RESTORED


def _is_forgotten(
    state: StoreState, permit: Permit, wanted: Sequence[ResourceClaim], own: Own
) -> bool:
    """Return whether the store lost this permit and may restore it.

    It must be of an earlier epoch, its holder must not be released since, and it must fit.
    """
    if not state.in_grace or permit.epoch == state.epoch.id:
        return False
    return all(
        not state.at(claim.resource).released.has(permit.holder)
        and state.has_room_for_living(claim, own)
        for claim in wanted
    )
