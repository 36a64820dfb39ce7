"""Keep the record of a wait in the line of a resource."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from ...core.wait import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.claim import Claim
    from ...core.ticket import Ticket
    from ..encoding import ResourceClaim


@dataclass(frozen=True)
class StoredWait:
    """The claims of a wait, its state, and the message that it parked."""

    ticket: Ticket  # its nonce names the wait; priority and place give the order in line
    kind: Kind
    claims: tuple[Claim, ...]
    resource_claims: tuple[ResourceClaim, ...]
    due: int  # when its next acquire is expected, or since when it is in transit
    payload: bytes | None = None
    name: str = ""
    broker: str = ""  # that the message belongs to; empty: any
    ends: float = inf  # when the wait is over without a permit
    ended: bool = False
    session: str = ""  # that asks for its grants; empty: none
    epoch: int = 0  # in which that session last said that it owns the wait
    away: bool = False  # not reachable, or its session did not take a grant up: its message is with the broker
    aside: bool = False  # heavier than the limit in force: it blocks no other
    keeps: int = 0  # how long its place is kept in transit, if longer than a lease

    @property
    def nonce(self) -> str:
        return self.ticket.nonce

    @property
    def in_transit(self) -> bool:
        """Whether its message is with the broker: then it keeps its place, but can be granted nothing."""
        return self.payload is None and (self.away or not self.session)

    @property
    def in_line(self) -> bool:
        """Whether it is in line, as far as was last checked."""
        return not (self.in_transit or self.aside)

    def claims_the_same(self, wanted: Sequence[ResourceClaim]) -> bool:
        """Return whether these claims have the same resources and weights, in any order."""
        own = {claim.resource: claim.weight for claim in self.resource_claims}
        return own == {claim.resource: claim.weight for claim in wanted}

    def weight_at(self, resource: str) -> int:
        return self.claim_at(resource).weight

    def fits(self, resource: str, limit: int | None) -> bool:
        """Return whether its weight is within this limit, or without one within the limit that it declared."""
        claim = self.claim_at(resource)
        return claim.weight <= (limit or claim.limit or 0)

    def claim_at(self, resource: str) -> ResourceClaim:
        return next(claim for claim in self.resource_claims if claim.resource == resource)
