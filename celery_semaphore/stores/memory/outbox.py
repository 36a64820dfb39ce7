"""Attach a parked message to its wait, return it when it must be sent, and delete it once the broker has it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from ...core.permit import Grant, Kind
from ..encoding import brief, microseconds, resource_claims, seconds
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.permit import Claim
    from ...core.ticket import Ticket
    from .resource import Entry, Resource
    from .state import MemoryState


def attach(
    state: MemoryState,
    ticket: Ticket,
    claims: Sequence[Claim],
    payload: bytes,
    *,
    name: str,
    ends_in: int | None,
) -> None:
    """Attach the message to its wait; if the wait was deleted, put it into the line of the first claim."""
    wanted = resource_claims(claims)
    state.end_overdue(wanted)
    ticket = state.known(wanted, ticket.nonce) or ticket
    at = (state.standing(wanted, ticket.nonce) or [state.at(wanted[0].resource)])[-1]
    before = at.tickets.get(ticket.nonce)
    ends = inf if ends_in is None else state.now + ends_in
    waiter = StoredWait(
        ticket, Kind.PARK, brief(claims), tuple(wanted), state.now, payload, name, ends
    )
    at.tickets[waiter.nonce] = waiter
    entry, whole = state.grant_to(wanted, waiter.nonce)
    if entry and not whole:
        state.end_grant(wanted, waiter.nonce)
    elif entry and before and before.payload is None:  # E3: the outbox sends it
        _send(state, at, waiter)


def _send(state: MemoryState, at: Resource, waiter: StoredWait) -> None:
    """Put the message into the outbox, with the grant of its wait."""
    for ask in waiter.resource_claims:
        grants = state.at(ask.resource).grants
        grants[waiter.nonce] = replace(grants[waiter.nonce], ends=state.now + state.take_up)
    at.outbox[waiter.nonce] = at.grants[waiter.nonce].token


def take(state: MemoryState, name: str) -> list[Grant]:
    """Return each message that must be sent, once; one that is not sent is returned again after its grant ended.

    A later grant may be for another message of this wait, on another resource.
    """
    at, grants = state.at(name), list[Grant]()
    for waiter, entry in outgoing(at):
        token, ends = (entry.token, entry.ends) if entry else (0, waiter.ends)
        payload = waiter.payload or b""
        grants.append(Grant(waiter.ticket, token, waiter.claims, payload, seconds(ends)))
    at.outbox.clear()
    return grants


def outgoing(at: Resource) -> Iterator[tuple[StoredWait, Entry | None]]:
    """Yield each wait with a message that must be sent, and its grant; skip those that are in line again."""
    for nonce, sent_with in at.outbox.items():
        waiter, entry = at.tickets.get(nonce), at.grants.get(nonce)
        is_granted = entry is not None and entry.token == sent_with
        if waiter and waiter.payload is not None and (is_granted or waiter.ended):
            yield waiter, entry


def sent(state: MemoryState, grant: Grant) -> None:
    """E15: delete a message that the broker has; keep its grant, if it has one, until it is taken up."""
    nonce, until = grant.ticket.nonce, grant.expires_at
    for ask in resource_claims(grant.claims):
        at = state.at(ask.resource)
        entry, waiter = at.grants.get(nonce), at.tickets.get(nonce)
        if entry and entry.token == grant.token:
            at.forget(nonce)
            at.grants[nonce] = replace(entry, ends=state.now + state.take_up)
        elif not grant.token and waiter and waiter.ended and waiter.ends == microseconds(until):
            at.forget(nonce)
        # Else the message was delivered and parked again.
