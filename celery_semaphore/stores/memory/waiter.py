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
    from ..asking import Ask


@dataclass(frozen=True)
class Waiter:
    """All that a wait asks for, and the message that it parked."""

    ticket: TicketFields  # its nonce names the wait; priority and place say where it stands
    kind: Kind
    claims: tuple[Claim, ...]
    asks: tuple[Ask, ...]
    due: int  # asked again by then, else forgotten
    payload: bytes | None = None
    name: str = ""
    ends: float = inf  # when the wait is over without a permit
    ended: bool = False
    session: str = ""  # that asks for its grants
    away: bool = (
        False  # its session slept, or did not take a grant up: its message is with the broker
    )
    keeps: int = 0  # how long its place is kept then, if that is longer than a lease

    @property
    def nonce(self) -> str:
        return self.ticket.nonce

    @property
    def stays(self) -> bool:
        """Whether a permit can be handed to it, for it does not come back by itself."""
        owned = self.payload is not None or bool(self.session)
        return owned and not self.ended and not self.away

    @property
    def comes_back(self) -> bool:
        """Whether a permit is kept for it when it is due."""
        return not (self.stays or self.ended or self.session)

    @property
    def is_kept(self) -> bool:
        """Whether it stands until it ends, not only until it is due."""
        return self.payload is not None or bool(self.session and not self.away)

    def weight_at(self, resource: str) -> int:
        return self.ask_at(resource).weight

    def ask_at(self, resource: str) -> Ask:
        return next(ask for ask in self.asks if ask.resource == resource)

    def promoted(self) -> Waiter:
        """Return the same wait with the highest priority, at its place."""
        return replace(self, ticket=replace(self.ticket, priority=HIGHEST_PRIORITY))
