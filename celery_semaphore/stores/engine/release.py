"""Release a permit, or end a wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.message_id import MessageId
from ..encoding import ResourceClaim
from .kept_room import end_kept_room
from .messages import note_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.ticket import Ticket
    from .state import StoreState


def release(
    state: StoreState, holder: str, wanted: Sequence[ResourceClaim], message_id: MessageId | None
) -> None:
    """End the permit of this holder, and prevent that it gets one later."""
    note_end(state, wanted[0].resource, message_id, holder)  # R5
    state.end_overdue(wanted)  # R2
    for claim in wanted:
        at = state.at(claim.resource)
        if entry := at.holders.pop(holder, None):  # R3
            at.learn(max(0, state.now - entry.since))  # the clock may have stepped back
        at.mark_released(holder, state.now + state.lease)  # R4
    if _is_unheard(state, wanted, holder):  # R6
        end_kept_room(state, wanted, holder)
        state.taken_up(wanted, holder)


def end_wait(state: StoreState, ticket: Ticket, wanted: Sequence[ResourceClaim]) -> None:
    """R6, E14: end the wait of this ticket, and its grant."""
    state.end_overdue(wanted)
    end_kept_room(state, wanted, ticket.nonce)
    state.taken_up(wanted, ticket.nonce)


def _is_unheard(state: StoreState, wanted: Sequence[ResourceClaim], holder: str) -> bool:
    """Return whether the holder has a wait from an acquire that lost its answer, without a parked message."""
    at = state.standing(wanted, holder)
    return at is not None and at.tickets[holder].payload is None and not at.was_sent(holder)
