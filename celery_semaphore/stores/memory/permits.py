"""Renew a permit, restore one that the store lost, and release it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import MessageId, Permit, Renewal
from ..encoding import ResourceClaim, microseconds, resource_claims
from .messages import Messages
from .resource import Own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.ticket import Ticket
    from .state import MemoryState


def renewed(state: MemoryState, permit: Permit) -> Renewal:
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
    names = [ask.resource for ask in wanted]
    restored = [name for name in names if not state.at(name).remembers(state.epoch.id, own)]
    if taken_up:
        state.taken_up(wanted, taken_up)
    since = microseconds(permit.acquired_at)
    state.write(wanted, permit.holder, permit.token, since, restored)
    return Renewal.OK if whole else Renewal.RESTORED


def _is_forgotten(
    state: MemoryState, permit: Permit, wanted: Sequence[ResourceClaim], own: Own
) -> bool:
    """Return whether the store lost this permit and may restore it.

    It must be of an earlier epoch, its holder must not be released since, and it must fit.
    """
    if not state.in_grace or permit.epoch == state.epoch.id:
        return False
    return all(
        permit.holder not in state.at(ask.resource).released and state.has_room_for_living(ask, own)
        for ask in wanted
    )


def release(
    state: MemoryState, holder: str, wanted: Sequence[ResourceClaim], message_id: MessageId | None
) -> None:
    """End the permit of this holder, and prevent that it gets one later."""
    Messages(state, wanted[0].resource, message_id).ran(holder)  # R5
    state.end_overdue(wanted)  # R2
    for ask in wanted:
        at = state.at(ask.resource)
        if entry := at.holders.pop(holder, None):  # R3
            at.learn(max(0, state.now - entry.since))  # the clock may have stepped back
        at.mark_released(holder, state.now + state.lease)  # R4
    if _is_unheard(state, wanted, holder):  # R6
        state.taken_up(wanted, holder)


def end_wait(state: MemoryState, ticket: Ticket, wanted: Sequence[ResourceClaim]) -> None:
    """R6, E14: end the wait of this ticket, and its grant."""
    state.end_overdue(wanted)
    state.taken_up(wanted, ticket.nonce)


def _is_unheard(state: MemoryState, wanted: Sequence[ResourceClaim], holder: str) -> bool:
    """Return whether the holder has a wait from an acquire that lost its answer, without a parked message."""
    found = [at.tickets[holder] for at in state.standing(wanted, holder)]
    return bool(found) and all(waiter.payload is None for waiter in found)
