"""A wait, as the resource knows it in whose line it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from ...core.permit import Kind
from ...core.ticket import HIGHEST_PRIORITY

if TYPE_CHECKING:
    from ...core.permit import Claim
    from ...core.ticket import TicketFields
    from ..encoding import ResourceClaim


@dataclass(frozen=True)
class Waiter:
    """All that a wait asks for, and the message that it parked."""

    ticket: TicketFields  # its nonce names the wait; priority and place say where it stands
    kind: Kind
    claims: tuple[Claim, ...]
    resource_claims: tuple[ResourceClaim, ...]
    due: int  # asks again by then; in transit by a session that sleeps: since when
    payload: bytes | None = None
    name: str = ""
    ends: float = inf  # when the wait is over without a permit
    ended: bool = False
    session: str = ""  # that asks for its grants
    away: bool = (
        False  # its session slept, or did not take a grant up: its message is with the broker
    )
    aside: bool = False  # the limit in force is too low for it: it blocks no other
    keeps: int = 0  # how long its place is kept then, if that is longer than a lease

    @property
    def nonce(self) -> str:
        return self.ticket.nonce

    @property
    def in_transit(self) -> bool:
        """Whether its message is with the broker: no permit can be granted to it, and its place is kept for a while."""
        return self.payload is None and (self.away or not self.session)

    def weight_at(self, resource: str) -> int:
        return self.ask_at(resource).weight

    def ask_at(self, resource: str) -> ResourceClaim:
        return next(ask for ask in self.resource_claims if ask.resource == resource)

    def promoted(self) -> Waiter:
        """Return the same wait with the highest priority, at its place."""
        return replace(self, ticket=replace(self.ticket, priority=HIGHEST_PRIORITY))
