"""Hand on: grant a free permit to the first wait in line that is reachable.

The rows are those of docs/maintain/architecture.md, chapter 7. H2, H4, H5 and H11 are in ``StoreState.first``. H10 is
not here: no other process waits for this store, so one call does all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.store import HandedOn
from ..encoding import ResourceClaim
from .kept_room import end_kept_room, keep_room
from .resource import Entry
from .state import GRANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing
    from .resource import Resource
    from .state import StoreState
    from .stored_wait import StoredWait


def hand_on(state: StoreState, names: Sequence[str]) -> HandedOn:
    """Grant the free permits of these resources."""
    granted: list[StoredWait] = []
    outgoing = _hand_on(state, names, granted)
    return HandedOn(outgoing, frozenset(waiter.nonce for waiter in granted if waiter.session))


def _hand_on(state: StoreState, names: Sequence[str], granted: list[StoredWait]) -> Outgoing:
    """Add the waits that are granted to ``granted``, and return the resources with messages to send.

    If a head has claims on other resources, all are handed on together.
    """
    needed, left = list[str](), [*names]
    while left:
        at = state.at(left.pop(0))
        while waiter := _next(state, at):
            if not {claim.resource for claim in waiter.resource_claims}.issubset(names):  # H7
                needed = [claim.resource for claim in waiter.resource_claims]
                break
            left += _grant_or_move(state, at, waiter, granted)
    outgoing = frozenset(name for name in names if state.at(name).outbox)
    if not needed:
        return outgoing
    together = list(dict.fromkeys([*names, *needed]))
    state.sweep([ResourceClaim(name, 0, 0) for name in together])
    return outgoing | _hand_on(state, together, granted)


def _next(state: StoreState, at: Resource) -> StoredWait | None:
    """Return the first in line if there is room for it; else it blocks the line, or heavy waits would starve."""
    head = None if state.in_grace else state.first(at)  # H1
    if head and not state.refusal(head.claim_at(at.name), head.ticket):  # H1, H6
        return head
    return None  # H3: a free permit goes to the next acquire


def _grant_or_move(
    state: StoreState, at: Resource, waiter: StoredWait, granted: list[StoredWait]
) -> list[str]:
    """Return the resources where the wait keeps no room any more."""
    if refusing := state.refusing(waiter.resource_claims, waiter.ticket, admits=at.name):  # H8
        at.forget(waiter.nonce)
        state.at(refusing[0].resource).tickets[waiter.nonce] = waiter
        return keep_room(state, waiter, *refusing)
    _grant(state, at, waiter)
    granted.append(waiter)
    return []


def _grant(state: StoreState, at: Resource, waiter: StoredWait) -> None:
    """H9, E4: grant all claims of this wait."""
    end_kept_room(state, waiter.resource_claims, waiter.nonce)
    token = state.new_token(waiter.resource_claims)
    ends = state.now + (GRANT if waiter.session else state.take_up)
    for claim in waiter.resource_claims:
        state.at(claim.resource).grants[waiter.nonce] = Entry(
            token, state.now, claim.weight, ends, state.epoch.id, ticket=waiter.ticket
        )
    if waiter.payload is not None:
        at.outbox[waiter.nonce] = token
