"""A parked message: it is attached to its wait, taken out to be sent, and forgotten once the broker has it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from ...core.permit import Grant, Kind
from ...core.ticket import nonce_of
from ..encoding import brief, microseconds, resource_claims, seconds
from .waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.permit import Claim
    from ...core.ticket import TicketFields
    from .resource import Resource
    from .state import MemoryState


def attach(
    state: MemoryState,
    ticket: TicketFields,
    claims: Sequence[Claim],
    payload: bytes,
    *,
    name: str,
    ends_in: int | None,
) -> None:
    """Put the message where its wait stands; one that was forgotten stands at the first claim."""
    wanted = resource_claims(claims)
    state.drop(wanted)
    ticket = state.known(wanted, ticket.nonce) or ticket
    at = (state.standing(wanted, ticket.nonce) or [state.at(wanted[0].resource)])[-1]
    before = at.tickets.get(ticket.nonce)
    ends = inf if ends_in is None else state.now + ends_in
    waiter = Waiter(ticket, Kind.PARK, brief(claims), tuple(wanted), state.now, payload, name, ends)
    at.tickets[waiter.nonce] = waiter
    entry, whole = state.grant_to(wanted, waiter.nonce)
    if entry and not whole:
        state.end_grant(wanted, waiter.nonce)
    elif entry and before and before.payload is None:  # E3: its session need not ask any more
        _send(state, at, waiter)


def _send(state: MemoryState, at: Resource, waiter: Waiter) -> None:
    """Send the message out with the permit that is granted to its wait."""
    for ask in waiter.resource_claims:
        grants = state.at(ask.resource).grants
        grants[waiter.nonce] = replace(grants[waiter.nonce], ends=state.now + state.take_up)
    at.outbox[waiter.nonce] = at.grants[waiter.nonce].token


def take(state: MemoryState, name: str) -> list[Grant]:
    """Return what must be sent, once; what is not sent comes again when its grant has ended.

    A later grant may be for another message of this wait, at another resource.
    """
    at, grants = state.at(name), list[Grant]()
    for nonce, sent_with in at.outbox.items():
        waiter, entry = at.tickets.get(nonce), at.grants.get(nonce)
        is_granted = entry is not None and entry.token == sent_with
        if waiter and waiter.payload is not None and (is_granted or waiter.ended):
            token, ends = (entry.token, entry.ends) if entry else (0, waiter.ends)
            text = waiter.ticket.text
            grants.append(Grant(text, token, waiter.claims, waiter.payload, seconds(ends)))
    at.outbox.clear()
    return grants


def sent(state: MemoryState, grant: Grant) -> None:
    """Forget a message that the broker has; its permit, if it has one, waits for it."""
    nonce, until = nonce_of(grant.ticket), grant.expires_at
    for ask in resource_claims(grant.claims):
        at = state.at(ask.resource)
        entry, waiter = at.grants.get(nonce), at.tickets.get(nonce)
        if entry and entry.token == grant.token:
            at.forget(nonce)
            at.grants[nonce] = replace(entry, ends=state.now + state.take_up)
        elif not grant.token and waiter and waiter.ended and waiter.ends == microseconds(until):
            at.forget(nonce)
        # Else it came back already, and is parked anew.
