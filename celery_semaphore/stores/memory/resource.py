"""What is known of one resource. Times are whole microseconds, as on the other stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.permit import Claim, Kind
    from ..asking import Ask


LATELY = 50  # permits that were given back last make the mean


@dataclass(frozen=True)
class Entry:
    """A permit, or a grant handed on in the course of somebody's call."""

    token: int
    since: int
    weight: int
    ends: int
    by: str | None = None  # whose call handed it on; None for a permit


@dataclass(frozen=True)
class Waiter:
    """Who waits here, for all that it asks, and the message it parked."""

    ticket: str
    kind: Kind
    claims: tuple[Claim, ...]
    asks: tuple[Ask, ...]
    due: int
    payload: bytes | None = None

    def weight_at(self, resource: str) -> int:
        return next(ask.weight for ask in self.asks if ask.resource == resource)


@dataclass
class Resource:
    """Holders, the line, and what is kept for a while of those who are gone."""

    name: str
    holders: dict[str, Entry] = field(default_factory=dict)  # by holder, or ticket that was granted
    released: dict[str, int] = field(default_factory=dict)  # holder → when that may be forgotten
    tickets: dict[str, Waiter] = field(default_factory=dict)  # in the line, or granted
    token: int = 0
    declared: int | None = None  # by the newest acquire
    mean: float | None = None
    learnt: int = 0  # how many made the mean
    idle_since: int = 0

    def occupied(self) -> int:
        return sum(entry.weight for entry in self.holders.values())

    def line(self, before: str | None = None) -> Iterator[Waiter]:
        """Who waits, in order; as text, tickets sort by priority and by first come."""
        for ticket in sorted(self.tickets):
            if ticket not in self.holders and (before is None or ticket < before):
                yield self.tickets[ticket]

    def ahead(self, ticket: str, limit: int, *, parked: bool) -> Waiter | None:
        """The first before this ticket that the limit in force could ever let in."""
        for waiter in self.line(before=ticket):
            if (waiter.payload is not None) == parked and waiter.weight_at(self.name) <= limit:
                return waiter
        return None

    def made_by(self, holder: str) -> str | None:
        return next((ticket for ticket in self.tickets if ticket[21:] == holder), None)

    def bury(self, holder: str, until: int) -> None:
        self.released[holder] = until

    def learn(self, held: int) -> None:
        mean = held if self.mean is None else self.mean
        self.learnt += 1
        self.mean = mean + (held - mean) / min(self.learnt, LATELY)

    def drop(self, now: int, lease: int) -> None:
        """End what is overdue; a grant that nobody took up is back in its place."""
        for name, entry in list(self.holders.items()):
            if entry.ends <= now:
                del self.holders[name]
                if entry.by is None:
                    self.bury(name, now + lease)
        for waiter in list(self.line()):
            if waiter.payload is None and waiter.due + lease <= now:
                del self.tickets[waiter.ticket]
        self.released = {name: until for name, until in self.released.items() if until > now}

    def idle(self) -> bool:
        return not self.holders and not self.tickets

    def park(self, waiter: Waiter, payload: bytes) -> None:
        self.tickets[waiter.ticket] = replace(waiter, payload=payload)
