"""Keep the state of one resource. Times are whole microseconds, as on the other stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from ...core.ticket import HIGHEST_PRIORITY, Ticket
from .tombstones import KeptTombstones, Tombstones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .declared import Declared
    from .stored_wait import StoredWait


LATELY = 50  # the mean is that of about so many permits, the last ones released


@dataclass(frozen=True)
class Entry:
    """A permit, or a grant."""

    token: int
    since: int
    weight: int
    ends: int
    epoch: int  # in which it was last written or renewed
    ticket: Ticket | None = None  # for a grant: the ticket of the wait to take it up
    restored: bool = False  # lately, by its holder, after the store had lost it (A21)

    @property
    def granted(self) -> bool:
        return self.ticket is not None


class KeptRoom(NamedTuple):
    """The room that a wait keeps at one of its resources while another one refuses it (H12)."""

    ticket: Ticket
    weight: int
    ends: int


class Own(NamedTuple):
    """The own entries of a renewal: its permit, or the grant that it was if the store lost the take-up."""

    holder: str | None = None
    nonce: str | None = None


NOTHING = Own()


@dataclass
class Resource:
    """One resource: its holders, its line, and its tombstones."""

    name: str
    holders: dict[str, Entry] = field(default_factory=dict)  # permits
    # By nonce, apart from `holders`: a nonce is a holder's name, and may have a permit and a grant at once.
    grants: dict[str, Entry] = field(default_factory=dict)
    released: Tombstones = field(default_factory=KeptTombstones)
    tickets: dict[str, StoredWait] = field(
        default_factory=dict
    )  # by nonce: in line, granted or ended
    # The messages to send: nonce → token of the grant, or 0 if the wait has ended.
    outbox: dict[str, int] = field(default_factory=dict)
    kept: dict[str, KeptRoom] = field(default_factory=dict)  # by nonce of the wait
    token: int = 0
    declared: Declared | None = None  # by acquires
    mean: float | None = None
    mean_samples: int = 0  # how many permits the mean has counted
    # How long the last permit was held that was released while a task waited.
    latest: float | None = None
    touched: int = 0  # time of the last call
    reaped_at: int = 0  # time of the last reaping, which takes the oldest first

    def occupied(self) -> int:
        return sum(entry.weight for entry in self.entries())

    def rooms_before(self, ticket: Ticket) -> list[KeptRoom]:
        """Return the room that other waits keep, which stand before this one (C4)."""
        others = [room for nonce, room in self.kept.items() if nonce != ticket.nonce]
        return [room for room in others if room.ticket.rank < ticket.rank]

    def kept_before(self, ticket: Ticket) -> int:
        return sum(room.weight for room in self.rooms_before(ticket))

    def lasting(self, now: int, furthest: int) -> dict[str, KeptRoom]:
        """Return the kept room whose time lasts; it is over if the clock stepped back."""
        return {nonce: room for nonce, room in self.kept.items() if now < room.ends <= furthest}

    def entries(self, without: Own = NOTHING) -> list[Entry]:
        """Return all permits and grants, except the given ones."""
        permits = [entry for name, entry in self.holders.items() if name != without.holder]
        return permits + [entry for name, entry in self.grants.items() if name != without.nonce]

    def has_room_for_living(self, weight: int, limit: int, epoch: int, own: Own = NOTHING) -> bool:
        """A21: return whether a permit of an earlier epoch fits beside those that are known to be alive.

        A permit that was not yet confirmed in this epoch may have ended in the moments that the store lost.
        The limit may have been lowered since the permits were admitted: all that survived a loss was admitted once.
        """
        living = sum(entry.weight for entry in self.entries(without=own) if entry.epoch == epoch)
        survived = sum(entry.weight for entry in self.entries() if not entry.restored)
        return living + weight <= max(limit, survived)

    def survived(self, own: Own) -> bool:
        """Return whether this permit, or the grant that it was, survived the last loss."""
        entries = (self.holders.get(own.holder or ""), self.grants.get(own.nonce or ""))
        return any(entry and not entry.restored for entry in entries)

    def line(self, before: Ticket | None = None) -> list[StoredWait]:
        """Return all waits in the order of the line: by priority, then by place."""
        line = [
            waiter
            for nonce, waiter in self.tickets.items()
            if not (nonce in self.grants or waiter.ended)
            if before is None or waiter.ticket.rank < before.rank
        ]
        return sorted(line, key=lambda waiter: waiter.ticket.rank)

    def promote(self, nonces: Collection[str]) -> frozenset[str]:
        """Give those of these waits that stand in line, or are set aside, the highest priority; return which ones."""
        moved = [each for each in self.line() if each.nonce in nonces and not each.in_transit]
        for each in moved:
            ticket = replace(each.ticket, priority=HIGHEST_PRIORITY)
            self.tickets[each.nonce] = replace(each, ticket=ticket)
        return frozenset(each.nonce for each in moved)

    def has_message(self, names: Iterable[str]) -> bool:
        """Return whether a message with one of these names is in line or granted."""
        waits = (each for each in self.tickets.values() if not each.ended)
        return any(each.name and each.name in names for each in waits)

    def waits_of(self, task_id: str) -> list[StoredWait]:
        """Return the waits of this task that have their records here."""
        waits = self.tickets.values()
        return [each for each in waits if each.nonce.rpartition(":")[0] == task_id]

    def parked(self, names: Iterable[str]) -> list[StoredWait]:
        """Return the waits in line of the messages with these names."""
        return [each for each in self.line() if each.name and each.name in names]

    def mark_released(self, holder: str, until: int) -> None:
        self.released.mark(holder, until)

    def learn(self, held: int) -> None:
        if self.tickets:
            self.latest = held
        mean = held if self.mean is None else self.mean
        self.mean_samples += 1
        self.mean = mean + (held - mean) / min(self.mean_samples, LATELY)

    def cut(self, now: int, furthest: int) -> None:
        """Cut leases that end later than any can: the clock stepped back. End kept room."""
        self.kept = self.lasting(now, furthest)
        for entries in (self.holders, self.grants):
            for name, entry in entries.items():
                entries[name] = replace(entry, ends=min(entry.ends, furthest))

    def end_overdue(self, now: int, permits_ended_by: int, lease: int, take_up: int) -> list[Entry]:
        """End what is overdue; return the grants that a session did not take up."""
        for holder, entry in list(self.holders.items()):
            if entry.ends <= permits_ended_by:
                del self.holders[holder]
                self.mark_released(holder, now + lease)
        lapsed = self._end_grants(now)
        # E7 puts them in transit from now on, whenever they were put there before.
        not_taken_up = {entry.ticket.nonce for entry in lapsed if entry.ticket}
        for nonce, waiter in list(self.tickets.items()):
            if nonce in self.grants or nonce in not_taken_up:
                continue
            if waiter.in_transit and waiter.due + max(lease, waiter.keeps) <= now:  # E13
                self.forget(nonce)
            elif waiter.ends <= now:  # E10
                self.end(nonce, now + take_up)
        self.released.drop_expired(now)
        return lapsed

    def _end_grants(self, now: int) -> list[Entry]:
        """End overdue grants, so that waits with a parked message are in line again.

        Return the grants that a session did not take up.
        """
        lapsed = []
        for nonce, entry in list(self.grants.items()):
            if entry.ends <= now:
                del self.grants[nonce]
                waiter = self.tickets.get(nonce)
                if waiter and waiter.session:
                    lapsed.append(entry)
                elif waiter and waiter.payload is None:
                    self.forget(nonce)  # its message was sent
        return lapsed

    def send_off(self, waiter: StoredWait, now: int) -> None:
        """Put a wait in transit: it keeps its place for a while, and blocks no other."""
        self.tickets[waiter.nonce] = replace(waiter, away=True, due=now, aside=False)

    def set_aside(self, waiter: StoredWait) -> None:
        """H4: set a wait aside, so that no call steps over it again."""
        self.tickets[waiter.nonce] = replace(waiter, aside=True)

    def line_up_again(self, limit: int | None) -> None:
        """H2: put set-aside waits that fit this limit back into line."""
        for nonce, waiter in self.tickets.items():
            if waiter.aside and (limit is None or waiter.weight_at(self.name) <= limit):
                self.tickets[nonce] = replace(waiter, aside=False)

    def idle(self) -> bool:
        return not (self.holders or self.grants or self.tickets)

    def forget(self, nonce: str) -> StoredWait | None:
        """Delete a wait from the line and the outbox."""
        self.outbox.pop(nonce, None)
        return self.tickets.pop(nonce, None)

    def was_sent(self, nonce: str) -> bool:
        """Return whether the message of this wait was sent, with a grant that no call has ended."""
        waiter = self.tickets.get(nonce)
        return bool(waiter and waiter.in_transit and nonce in self.grants and not waiter.session)

    def send(self, nonce: str) -> None:
        """Delete the message of a granted wait; its record stays for as long as its grant."""
        if waiter := self.forget(nonce):
            self.tickets[nonce] = replace(waiter, payload=None, name="", ends=inf)

    def end(self, nonce: str, again: int) -> None:
        """End a wait and send its message back without a permit; if it is not sent, again at ``again``."""
        self.tickets[nonce] = replace(self.tickets[nonce], ended=True, ends=again)
        self.outbox[nonce] = 0
