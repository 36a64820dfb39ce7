"""A parked message: it is attached to its wait, taken out to be sent, and forgotten once the broker has it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from ...core.permit import Grant, Kind
from ...core.ticket import nonce_of
from ..encoding import asks, brief, microseconds, seconds
from .waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.permit import Claim
    from ...core.ticket import TicketFields
    from .resource import Resource
    from .state import Books


def attach(
    books: Books,
    ticket: TicketFields,
    claims: Sequence[Claim],
    payload: bytes,
    *,
    name: str,
    ends_in: int | None,
) -> None:
    """Put the message where its wait stands; one that was forgotten stands at the first claim."""
    wanted = asks(claims)
    books.drop(wanted)
    ticket = books.known(wanted, ticket.nonce) or ticket
    at = (books.standing(wanted, ticket.nonce) or [books.at(wanted[0].resource)])[-1]
    before = at.tickets.get(ticket.nonce)
    ends = inf if ends_in is None else books.now + ends_in
    waiter = Waiter(ticket, Kind.PARK, brief(claims), tuple(wanted), books.now, payload, name, ends)
    at.tickets[waiter.nonce] = waiter
    entry, whole = books.grant_to(wanted, waiter.nonce)
    if entry and not whole:
        books.end_grant(wanted, waiter.nonce)
    elif entry and before and before.payload is None:  # E3: its session need not ask any more
        _send(books, at, waiter)


def _send(books: Books, at: Resource, waiter: Waiter) -> None:
    """Send the message out with the permit that is granted to its wait."""
    for ask in waiter.asks:
        grants = books.at(ask.resource).grants
        grants[waiter.nonce] = replace(grants[waiter.nonce], ends=books.now + books.take_up)
    at.outbox[waiter.nonce] = at.grants[waiter.nonce].token


def take(books: Books, name: str) -> list[Grant]:
    """Return what must be sent, once; what is not sent comes again when its grant has ended.

    A later grant may be for another message of this wait, at another resource.
    """
    at, grants = books.at(name), list[Grant]()
    for nonce, sent_with in at.outbox.items():
        waiter, entry = at.tickets.get(nonce), at.grants.get(nonce)
        is_granted = entry is not None and entry.token == sent_with
        if waiter and waiter.payload is not None and (is_granted or waiter.ended):
            token, ends = (entry.token, entry.ends) if entry else (0, waiter.ends)
            text = waiter.ticket.text
            grants.append(Grant(text, token, waiter.claims, waiter.payload, seconds(ends)))
    at.outbox.clear()
    return grants


def sent(books: Books, grant: Grant) -> None:
    """Forget a message that the broker has; its permit, if it has one, waits for it."""
    nonce, until = nonce_of(grant.ticket), grant.expires_at
    for ask in asks(grant.claims):
        at = books.at(ask.resource)
        entry, waiter = at.grants.get(nonce), at.tickets.get(nonce)
        if entry and entry.token == grant.token:
            at.forget(nonce)
            at.grants[nonce] = replace(entry, ends=books.now + books.take_up)
        elif not grant.token and waiter and waiter.ended and waiter.ends == microseconds(until):
            at.forget(nonce)
        # Else it came back already, and is parked anew.
