"""Hand on: grant a free permit to the first wait in line that is reachable.

The rows are those of docs/maintain/architecture.md, chapter 7. H2, H4, H5 and H11 are in ``MemoryState.first``. H10 is
not here: no other process waits for this store, so one call does all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...core.store import HandedOn
from ..encoding import ResourceClaim
from .resource import Entry
from .state import GRANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .resource import Resource
    from .state import MemoryState
    from .stored_wait import StoredWait


def hand_on(state: MemoryState, names: Sequence[str]) -> HandedOn:
    """Grant the free permits of these resources."""
    return _HandOn(state, list(dict.fromkeys(names))).done()


@dataclass
class _HandOn:
    """One hand-on, at one instant. ``names`` are the resources that it may change."""

    state: MemoryState
    names: list[str]
    granted: list[StoredWait] = field(default_factory=list)
    again: bool = True  # all lines must be tried, as in another call of a server

    def done(self) -> HandedOn:
        while self.again:
            self.again = False
            self.state.wake_lines(*self.names)
            while not self.state.woken.keys().isdisjoint(self.names):
                for name in self.names:
                    if name in self.state.woken:
                        del self.state.woken[name]
                        self._pass_on(self.state.at(name))
            self._declare(sorted(self.state.woken))
        outgoing = frozenset(name for name in self.names if self.state.at(name).outbox)
        nonces = frozenset(waiter.nonce for waiter in self.granted if waiter.session)
        return HandedOn(outgoing, nonces)

    def _declare(self, needed: list[str]) -> None:
        """H7: try all lines again, together with those of these resources."""
        if needed:
            self.names += needed
            self.state.sweep([ResourceClaim(name, 0, 0) for name in self.names])
            self.again = True

    def _pass_on(self, at: Resource) -> None:
        while (waiter := self._next(at)) and self._grant_or_move(at, waiter):
            pass

    def _next(self, at: Resource) -> StoredWait | None:
        """Return the first in line if there is room for it; else it blocks the line, or heavy waits would starve."""
        head = None if self.state.in_grace else self.state.first(at)  # H1
        if head and not self.state.refusal(head.claim_at(at.name), head.ticket):  # H1, H6
            return head
        return None  # H3: a free permit goes to the next acquire

    def _grant_or_move(self, at: Resource, waiter: StoredWait) -> bool:
        """Return whether to try the next one in this line."""
        if not waiter.names.issubset(self.names):  # H7
            self.state.wake_lines(*waiter.names.difference(self.names))
            return False
        for claim in waiter.resource_claims:
            if claim.resource != at.name and self.state.refusal(claim, waiter.ticket):
                return self._move(at, self.state.at(claim.resource), waiter)
        self._grant(at, waiter)
        return True

    def _move(self, at: Resource, refusing: Resource, waiter: StoredWait) -> bool:
        """H8: move a wait, and those behind it, if one that does not claim the refusing resource stands behind them."""
        if not self._move_one(at, refusing, waiter):
            return True
        behind = (each for each in at.in_line() if each.ticket.rank > waiter.ticket.rank)
        passes = next((each for each in behind if refusing.name not in each.names), None)
        if passes is None:
            return False
        while (head := self.state.first(at)) and head.ticket.rank < passes.ticket.rank:
            self._move_one(at, refusing, head)
        return True

    def _move_one(self, at: Resource, other: Resource, waiter: StoredWait) -> bool:
        """Move a wait to another line; a record there stays, but without a message it gives way to one that has one.

        Return whether it stands there with its claims: then it stands for those behind it here, too.
        """
        there = other.tickets.get(waiter.nonce)
        first = there or waiter
        ticket = min(first.ticket, waiter.ticket, key=lambda each: each.rank)
        replaces = bool(there and there.payload is None and waiter.payload is not None)
        if replaces:
            first = waiter  # this may be the only message of the task that is left
            other.leave(waiter.nonce)
        other.tickets[waiter.nonce] = replace(first, ticket=ticket)
        at.forget(waiter.nonce)
        self.state.wake_lines(other.name)
        return first is waiter and waiter.nonce not in other.grants

    def _grant(self, at: Resource, waiter: StoredWait) -> None:
        """H9, E4: grant all claims of this wait; the lines of its other resources may go on."""
        token = self.state.new_token(waiter.resource_claims)
        ends = self.state.now + (GRANT if waiter.session else self.state.take_up)
        for claim in waiter.resource_claims:
            self.state.at(claim.resource).grants[waiter.nonce] = Entry(
                token, self.state.now, claim.weight, ends, self.state.epoch.id, ticket=waiter.ticket
            )
            if claim.resource != at.name:
                self.state.wake_lines(claim.resource)
        if waiter.payload is not None:
            at.outbox[waiter.nonce] = token
        self.granted.append(waiter)
