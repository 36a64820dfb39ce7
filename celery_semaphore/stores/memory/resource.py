"""What is known of one resource. Times are whole microseconds, as on the other stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from ...core.permit import Kind
from ..asking import DEFAULT_MEAN, EARLY, LATE, maker_of, promoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.permit import Claim
    from ..asking import Ask


LATELY = 50  # permits that were given back last make the mean


@dataclass(frozen=True)
class Entry:
    """A permit, or a grant."""

    token: int
    since: int
    weight: int
    ends: int
    epoch: int  # in which it was written or renewed last: an earlier one only remembers it
    granted: bool = False  # handed to a ticket that has not taken it up yet
    kept: bool = False  # until that comes back by itself
    restored: bool = False  # in its epoch, which had forgotten it


@dataclass(frozen=True)
class Waiter:
    """Who waits here, for all that it asks, and the message it parked."""

    ticket: str
    kind: Kind
    claims: tuple[Claim, ...]
    asks: tuple[Ask, ...]
    due: int  # asked again by then, else forgotten
    payload: bytes | None = None
    name: str = ""
    ends: float = inf  # when the wait is over without a permit
    ended: bool = False

    @property
    def stays(self) -> bool:
        """Whether a permit can be handed to it, for it does not come back by itself."""
        return not self.ended and (self.payload is not None or self.kind is Kind.CALL)

    def weight_at(self, resource: str) -> int:
        return next(ask.weight for ask in self.asks if ask.resource == resource)


@dataclass(frozen=True)
class Remembered:
    """Of a task that waits or waited: its ticket, and which of its messages was admitted, for whom."""

    ticket: str
    until: int
    admitted: str | None = None
    holder: str = ""
    ran: bool = False


@dataclass
class Resource:
    """Holders, the line, and what is kept for a while of those who are gone."""

    name: str
    holders: dict[str, Entry] = field(default_factory=dict)  # by holder, or ticket that was granted
    released: dict[str, int] = field(default_factory=dict)  # holder → when that may be forgotten
    tickets: dict[str, Waiter] = field(default_factory=dict)  # in the line, granted or ended
    outbox: dict[str, None] = field(default_factory=dict)  # tickets whose messages must be sent
    token: int = 0
    declared: int | None = None  # by the newest acquire
    mean: float | None = None
    learnt: int = 0  # how many made the mean
    ceiling: tuple[int, float] = (0, inf)  # an epoch, and the most that could live in it
    touched: int = 0  # by any call
    looked_at: int = 0  # by reaping, which looks at so many at a time

    def occupied(self) -> int:
        return sum(entry.weight for entry in self.holders.values())

    def has_room_for_living(
        self, weight: int, limit: int, epoch: int, own: Sequence[str] = ()
    ) -> bool:
        """Return whether a permit of an earlier epoch fits beside those that are known to live.

        One that is only remembered may have ended in the moments that the store forgot. A limit may
        have been lowered since so many were admitted.
        """
        others = [entry for name, entry in self.holders.items() if name not in own]
        if sum(entry.weight for entry in others) + weight <= limit:
            return True  # beside all of them
        living = sum(entry.weight for entry in others if entry.epoch == epoch)
        remembered = sum(
            entry.weight
            for entry in self.holders.values()
            if not (entry.restored and entry.epoch == epoch)
        )
        return living + weight <= max(limit, min(remembered, self._ceiling_in(epoch, limit)))

    def _ceiling_in(self, epoch: int, limit: int) -> float:
        """The most that can live of what this epoch remembers, whatever the limit is now.

        That is all of it, for it was admitted once. But where the epoch before put permits back,
        they stand beside the dead whose places they have: then it is no more than that epoch let
        live, or admitted since.
        """
        known_in, ceiling = self.ceiling
        if known_in != epoch:
            entries = self.holders.values()
            since = sum(entry.weight for entry in entries if entry.epoch >= known_in)
            ceiling = min(self.occupied(), max(limit, ceiling, since))
            self.ceiling = (epoch, ceiling)
        return ceiling

    def remembers(self, epoch: int, names: Sequence[str]) -> bool:
        """Return whether this epoch began with a permit of one of these."""
        entries = [self.holders[name] for name in names if name in self.holders]
        return any(not entry.restored or entry.epoch != epoch for entry in entries)

    def line(self, before: str | None = None) -> Iterator[Waiter]:
        """Who waits, in order; as text, tickets sort by priority and by first come."""
        for ticket in sorted(self.tickets):
            waiter = self.tickets[ticket]
            if ticket in self.holders or waiter.ended:
                continue
            if before is None or ticket < before:
                yield waiter

    def ahead(self, ticket: str, limit: int, *, parked: bool) -> Waiter | None:
        """The first before this ticket that the limit in force could ever let in."""
        for waiter in self.line(before=ticket):
            if waiter.stays == parked and waiter.weight_at(self.name) <= limit:
                return waiter
        return None

    def made_by(self, holder: str) -> str | None:
        return next((ticket for ticket in self.tickets if maker_of(ticket) == holder), None)

    def bury(self, holder: str, until: int) -> None:
        self.released[holder] = until

    def learn(self, held: int) -> None:
        mean = held if self.mean is None else self.mean
        self.learnt += 1
        self.mean = mean + (held - mean) / min(self.learnt, LATELY)

    def patience(self, take_up: int) -> tuple[int, int]:
        """How long before and after it is due a permit is kept for who comes back by itself."""
        mean = DEFAULT_MEAN if self.mean is None else round(self.mean)
        return max(mean, EARLY), min(max(mean, LATE), take_up)

    def cut(self, furthest: int) -> None:
        """Bring back what lies further ahead than it can; one that is kept can, by the mean."""
        mean = DEFAULT_MEAN if self.mean is None else round(self.mean)
        for name, entry in self.holders.items():
            ends = min(entry.ends, furthest + mean if entry.kept else furthest)
            self.holders[name] = replace(entry, ends=ends)

    def drop(self, now: int, lease: int, take_up: int) -> None:
        """End what is overdue."""
        self._drop_holders(now, lease)
        for waiter in list(self.tickets.values()):
            if waiter.ticket in self.holders:
                continue
            if waiter.payload is None and waiter.due + lease <= now:
                self.forget(waiter.ticket)
            elif waiter.ends <= now:
                self.end(waiter.ticket, now + take_up)
        self.released = {name: until for name, until in self.released.items() if until > now}

    def _drop_holders(self, now: int, lease: int) -> None:
        """A grant whose message was not even sent is back in its place."""
        for name, entry in list(self.holders.items()):
            if entry.ends <= now:
                del self.holders[name]
                if not entry.granted:
                    self.bury(name, now + lease)
                elif name in self.tickets and self.tickets[name].payload is None:
                    self.forget(name)  # whoever called is gone, or did not come in time

    def idle(self) -> bool:
        return not self.holders and not self.tickets

    def forget(self, ticket: str) -> Waiter | None:
        """Out of the line and the outbox."""
        self.outbox.pop(ticket, None)
        return self.tickets.pop(ticket, None)

    def promote(self, waiter: Waiter) -> None:
        """Before all whose priority is not the highest, too."""
        self.forget(waiter.ticket)
        raised = promoted(waiter.ticket)
        self.tickets[raised] = replace(waiter, ticket=raised)

    def end(self, ticket: str, again: int) -> None:
        """Its message shall go back without a permit; if it is not sent, ``again``."""
        self.tickets[ticket] = replace(self.tickets[ticket], ended=True, ends=again)
        self.outbox[ticket] = None
