"""Return a parked message when it must be sent, and delete it once the broker has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.grant import Grant
from ..encoding import microseconds, resource_claims, seconds
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .resource import Entry, Resource
    from .state import StoreState


def take(state: StoreState, name: str, broker: str | None) -> list[Grant]:
    """Return each message that must be sent, once; one that is not sent is returned again after its grant ended."""
    at, grants, kept = state.at(name), list[Grant](), dict[str, int]()
    for waiter, entry in outgoing(at):
        if broker is not None and waiter.broker not in ("", broker):  # K4
            kept[waiter.nonce] = at.outbox[waiter.nonce]
            continue
        token, ends = (entry.token, entry.ends) if entry else (0, waiter.ends)
        payload = waiter.payload or b""
        grants.append(Grant(waiter.ticket, token, waiter.claims, payload, seconds(ends)))
    at.outbox = kept
    return grants


def outgoing(at: Resource) -> Iterator[tuple[StoredWait, Entry | None]]:
    """Yield each wait with a message that must be sent, and its grant; skip those that are in line again."""
    for nonce, sent_with in at.outbox.items():
        waiter, entry = at.tickets.get(nonce), at.grants.get(nonce)
        is_granted = entry is not None and entry.token == sent_with
        if waiter and waiter.payload is not None and (is_granted or waiter.ended):
            yield waiter, entry


def sent(state: StoreState, grant: Grant, take_up: int) -> None:
    """E15: delete a message that the broker has; its grant, if it has one, lasts ``take_up`` from now."""
    nonce, until = grant.ticket.nonce, grant.expires_at
    for claim in resource_claims(grant.claims):
        at = state.at(claim.resource)
        entry, waiter = at.grants.get(nonce), at.tickets.get(nonce)
        if entry and entry.token == grant.token:
            at.send(nonce)
            at.grants[nonce] = replace(entry, ends=state.now + take_up)
        elif not grant.token and waiter and waiter.ended and waiter.ends == microseconds(until):
            at.forget(nonce)
        # Else the message was delivered and parked again.
