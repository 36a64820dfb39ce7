"""Attach a parked message to its wait."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from ...core.wait import Kind
from ..encoding import brief, resource_claims
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.claim import Claim
    from ...core.ticket import Ticket
    from .resource import Resource
    from .state import StoreState


def attach(
    state: StoreState,
    ticket: Ticket,
    claims: Sequence[Claim],
    payload: bytes,
    *,
    name: str,
    ends_in: int | None,
    broker: str,
) -> None:
    """Attach the message to its wait; if the wait was deleted, put it into the line of the first claim."""
    wanted = resource_claims(claims)
    state.check_claims(wanted, ticket.nonce)  # A19
    state.end_overdue(wanted)
    at = state.standing(wanted, ticket.nonce) or state.at(wanted[0].resource)
    before = at.tickets.get(ticket.nonce)
    ticket = before.ticket if before else ticket
    ends = inf if ends_in is None else state.now + ends_in
    waiter = StoredWait(
        ticket, Kind.PARK, brief(claims), tuple(wanted), state.now, payload, name, broker, ends
    )
    at.tickets[waiter.nonce] = waiter
    entry, whole = state.grant_to(wanted, waiter.nonce)
    if entry and not whole:
        state.return_to_line(wanted, waiter.nonce)
    elif entry and before and before.session:  # E3: the outbox sends it
        _send(state, at, waiter)


def _send(state: StoreState, at: Resource, waiter: StoredWait) -> None:
    """Put the message into the outbox, with the grant of its wait."""
    for claim in waiter.resource_claims:
        grants = state.at(claim.resource).grants
        grants[waiter.nonce] = replace(grants[waiter.nonce], ends=state.now + state.take_up)
    at.outbox[waiter.nonce] = at.grants[waiter.nonce].token
