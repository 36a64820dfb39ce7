"""What is known of one resource. Times are whole microseconds, as on the other stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...core.ticket import TicketFields
    from .waiter import Waiter


LATELY = 50  # permits that were given back last make the mean


@dataclass(frozen=True)
class Entry:
    """A permit, or a grant."""

    token: int
    since: int
    weight: int
    ends: int
    epoch: int  # in which it was written or renewed last: an earlier one only remembers it
    ticket: TicketFields | None = None  # of a grant: the wait that has not taken it up yet
    restored: bool = False  # in its epoch, which had forgotten it

    @property
    def granted(self) -> bool:
        return self.ticket is not None


class Own(NamedTuple):
    """What a renewal finds of its own: its permit, and the grant that the permit was before a loss."""

    holder: str | None = None
    nonce: str | None = None


NOTHING = Own()


@dataclass
class Resource:
    """Holders, the line, and what is kept for a while of those who are gone."""

    name: str
    holders: dict[str, Entry] = field(default_factory=dict)  # permits
    # By nonce, which is a holder's name: one delivery can have a permit while its wait has a grant.
    grants: dict[str, Entry] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)  # holder → when that may be forgotten
    tickets: dict[str, Waiter] = field(default_factory=dict)  # by nonce: in line, granted or ended
    # By nonce, the messages that must be sent: the token of the grant, or 0 where the wait has ended.
    outbox: dict[str, int] = field(default_factory=dict)
    token: int = 0
    declared: int | None = None  # by the newest acquire
    mean: float | None = None
    learnt: int = 0  # how many made the mean
    # How long the permit was held that was released last while there was a wait.
    latest: float | None = None
    ceiling: tuple[int, float] = (0, inf)  # an epoch, and the most that could live in it
    touched: int = 0  # by any call
    looked_at: int = 0  # by reaping, which looks at so many at a time

    def occupied(self) -> int:
        return sum(entry.weight for entry in self.entries())

    def entries(self, without: Own = NOTHING) -> list[Entry]:
        """Return all that counts: permits and grants."""
        permits = [entry for name, entry in self.holders.items() if name != without.holder]
        return permits + [entry for name, entry in self.grants.items() if name != without.nonce]

    def has_room_for_living(self, weight: int, limit: int, epoch: int, own: Own = NOTHING) -> bool:
        """Return whether a permit of an earlier epoch fits beside those that are known to live.

        One that is only remembered may have ended in the moments that the store forgot. A limit may
        have been lowered since so many were admitted.
        """
        others = self.entries(without=own)
        if sum(entry.weight for entry in others) + weight <= limit:
            return True  # beside all of them
        living = sum(entry.weight for entry in others if entry.epoch == epoch)
        remembered = sum(
            entry.weight
            for entry in self.entries()
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
            since = sum(entry.weight for entry in self.entries() if entry.epoch >= known_in)
            ceiling = min(self.occupied(), max(limit, ceiling, since))
            self.ceiling = (epoch, ceiling)
        return ceiling

    def remembers(self, epoch: int, own: Own) -> bool:
        """Return whether this epoch began with this permit, or with the grant that it was."""
        entries = (self.holders.get(own.holder or ""), self.grants.get(own.nonce or ""))
        return any(entry and (not entry.restored or entry.epoch != epoch) for entry in entries)

    def ticket_of(self, nonce: str) -> TicketFields | None:
        """Return the ticket of this wait as it is known here; the message may have been sent."""
        known = self.tickets.get(nonce) or self.grants.get(nonce)
        return known.ticket if known else None

    def line(self, before: TicketFields | None = None) -> list[Waiter]:
        """Return all that wait, in order: by priority, then by first come."""
        line = [
            waiter
            for nonce, waiter in self.tickets.items()
            if not (nonce in self.grants or waiter.ended)
            if before is None or waiter.ticket.turn < before.turn
        ]
        return sorted(line, key=lambda waiter: waiter.ticket.turn)

    def has_message(self, names: Iterable[str]) -> bool:
        """Return whether a message of these names is in line or granted; without a name it is not found."""
        waits = (each for each in self.tickets.values() if not each.ended)
        return any(each.name and each.name in names for each in waits)

    def parked(self, names: Iterable[str]) -> list[Waiter]:
        """Return the waits of these messages that stand in line."""
        return [each for each in self.line() if each.name and each.name in names]

    def mark_released(self, holder: str, until: int) -> None:
        self.released[holder] = until

    def learn(self, held: int) -> None:
        if self.tickets:
            self.latest = held
        mean = held if self.mean is None else self.mean
        self.learnt += 1
        self.mean = mean + (held - mean) / min(self.learnt, LATELY)

    def cut(self, furthest: int) -> None:
        """Bring back what lies further ahead than it can."""
        for entries in (self.holders, self.grants):
            for name, entry in entries.items():
                entries[name] = replace(entry, ends=min(entry.ends, furthest))

    def drop(self, now: int, lease: int, take_up: int) -> list[Entry]:
        """End what is overdue; return the grants that a session did not take up."""
        for holder, entry in list(self.holders.items()):
            if entry.ends <= now:
                del self.holders[holder]
                self.mark_released(holder, now + lease)
        lapsed = self._drop_grants(now)
        for nonce, waiter in list(self.tickets.items()):
            if nonce in self.grants:
                continue
            if waiter.in_transit and waiter.due + max(lease, waiter.keeps) <= now:
                self.forget(nonce)
            elif waiter.ends <= now:
                self.end(nonce, now + take_up)
        self.released = {name: until for name, until in self.released.items() if until > now}
        return lapsed

    def _drop_grants(self, now: int) -> list[Entry]:
        """Put a wait whose message was not even sent back in its place; return those that a session did not take up."""
        lapsed = []
        for nonce, entry in list(self.grants.items()):
            if entry.ends <= now:
                del self.grants[nonce]
                waiter = self.tickets.get(nonce)
                if waiter and waiter.session:
                    lapsed.append(entry)
                elif waiter and waiter.payload is None:
                    self.forget(nonce)  # it stood here by what it asked once
        return lapsed

    def send_off(self, waiter: Waiter, now: int) -> None:
        """Let it be in transit: it keeps its place for a while, and blocks no other."""
        self.tickets[waiter.nonce] = replace(waiter, away=True, due=now, aside=False)

    def set_aside(self, waiter: Waiter) -> None:
        """H4: no call steps over it again."""
        self.tickets[waiter.nonce] = replace(waiter, aside=True)

    def line_up_again(self, limit: int | None) -> None:
        """H2: let those stand in the line again that this limit fits."""
        for nonce, waiter in self.tickets.items():
            if waiter.aside and (limit is None or waiter.weight_at(self.name) <= limit):
                self.tickets[nonce] = replace(waiter, aside=False)

    def idle(self) -> bool:
        return not (self.holders or self.grants or self.tickets)

    def forget(self, nonce: str) -> Waiter | None:
        """Take it out of the line and the outbox."""
        self.outbox.pop(nonce, None)
        return self.tickets.pop(nonce, None)

    def end(self, nonce: str, again: int) -> None:
        """Send its message back without a permit; if it is not sent, ``again``."""
        self.tickets[nonce] = replace(self.tickets[nonce], ended=True, ends=again)
        self.outbox[nonce] = 0
