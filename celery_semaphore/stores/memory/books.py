"""All resources of one store at one instant: who is let in, who is not, and who is next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.permit import Grant, Reason
from ..asking import Ask, seconds
from .resource import Entry, Resource, Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .messages import Remembered


@dataclass
class Books:
    """``enter`` sets the instant; all else happens at it."""

    lease: int
    take_up: int
    resources: dict[str, Resource] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)  # set by operators
    epoch: int | None = None
    created: int = 0
    grace_until: int = 0
    messages: dict[tuple[str, str], Remembered] = field(default_factory=dict)
    now: int = 0

    def enter(self, now: int, known: int | None) -> int:
        """Remember, or begin a new memory; if anybody knew an older one, the living come first."""
        self.now = now
        recovered = now + self.lease * 2 // 3
        if self.epoch is None:
            self.epoch = max(now, (known or 0) + 1)
            self.created, self.grace_until = now, recovered if known else 0
        elif known and known != self.epoch and not self.grace_until:
            self.grace_until = recovered if now < self.created + self.lease else 0
        return self.epoch

    @property
    def in_grace(self) -> bool:
        return self.now < self.grace_until

    def at(self, name: str) -> Resource:
        return self.resources.setdefault(name, Resource(name))

    def remembered(self, name: tuple[str, str]) -> Remembered | None:
        """What is known of a task's messages; forgets what nobody needs any more."""
        while self.messages and next(iter(self.messages.values())).until <= self.now:
            del self.messages[next(iter(self.messages))]
        found = self.messages.get(name)
        return found if found and found.until > self.now else None

    def drop(self, wanted: Sequence[Ask]) -> None:
        # In the grace the store was away: nobody could renew or come back.
        if not self.in_grace:
            for ask in wanted:
                self.at(ask.resource).drop(self.now, self.lease)

    def limit(self, name: str, declared: int | None = None) -> int | None:
        """What an operator set, for the key or else for its semaphore; else what was declared last."""
        semaphore = name.partition("/")[0]
        known = self.resources.get(name)
        newest = known.declared if known else None
        return self.limits.get(
            name, self.limits.get(semaphore, declared if newest is None else newest)
        )

    def refusal(self, ask: Ask, ticket: str) -> Reason | None:
        """Why this claim refuses, if it does."""
        at, limit = self.at(ask.resource), self.limit(ask.resource, ask.limit) or 0
        occupied = at.occupied() + ask.weight
        if limit == 0:
            return Reason.PAUSED
        if ask.weight > limit:
            return Reason.UNSATISFIABLE
        if self.in_grace:
            return Reason.RECOVERING
        if occupied > limit or at.ahead(ticket, limit, parked=True):
            return Reason.SATURATED
        head = at.ahead(ticket, limit, parked=False)
        heavy = head.weight_at(at.name) if head else 0
        # Lighter ones would starve a heavy one that comes back by itself.
        starving = heavy > ask.weight and occupied + heavy > limit
        return Reason.SATURATED if starving else None

    def held(self, wanted: Sequence[Ask], name: str) -> tuple[Entry | None, bool]:
        """What a holder or a granted ticket has, and whether that is all of it, and alive."""
        found = [self.at(ask.resource).holders.get(name) for ask in wanted]
        entry = next((entry for entry in found if entry), None)
        whole = all(
            entry and entry.weight == ask.weight and (entry.ends > self.now or self.in_grace)
            for ask, entry in zip(wanted, found, strict=True)
        )
        return entry, whole

    def new_token(self, wanted: Sequence[Ask]) -> int:
        token = max(self.now, *(self.at(ask.resource).token + 1 for ask in wanted))
        for ask in wanted:
            self.at(ask.resource).token = token
        return token

    def write(self, wanted: Sequence[Ask], name: str, token: int, since: int) -> None:
        for ask in wanted:
            at = self.at(ask.resource)
            at.token = max(at.token, token)
            at.holders[name] = Entry(token, since, ask.weight, self.now + self.lease)

    def forget_ticket(self, wanted: Sequence[Ask], ticket: str) -> Waiter | None:
        """Take it out of whatever line it stands in."""
        found = None
        for ask in wanted:
            found = self.at(ask.resource).tickets.pop(ticket, None) or found
        return found

    def end_part(self, wanted: Sequence[Ask], holder: str) -> None:
        """A permit on some of its claims is none."""
        for ask in wanted:
            self.at(ask.resource).holders.pop(holder, None)
            self.at(ask.resource).bury(holder, self.now + self.lease)

    def hand_on(self, names: Sequence[str], by: str) -> list[Grant]:
        """What is free goes to whoever was parked first."""
        grants: list[Grant] = []
        for name in names:
            tried: set[str] = set()
            while self._try_next(name, tried, by, grants):
                pass
        for name in names:
            at = self.at(name)
            at.idle_since = self.now if at.idle() else 0
        return grants

    def _try_next(self, name: str, skipped: set[str], by: str, grants: list[Grant]) -> bool:
        at = self.at(name)
        line = (w for w in at.line() if w.payload is not None and w.ticket not in skipped)
        waiter = next(line, None)
        if not waiter:
            return False
        here = next(ask for ask in waiter.asks if ask.resource == name)
        why = self.refusal(here, waiter.ticket)
        if why is Reason.UNSATISFIABLE:
            skipped.add(waiter.ticket)
        elif why:
            return False  # it blocks the line, or heavy ones would starve
        else:
            self._grant_or_move(at, waiter, by, grants)
        return True

    def _grant_or_move(self, at: Resource, waiter: Waiter, by: str, grants: list[Grant]) -> None:
        self.drop(waiter.asks)
        for ask in waiter.asks:
            if ask.resource != at.name and self.refusal(ask, waiter.ticket):
                self.at(ask.resource).tickets[waiter.ticket] = at.tickets.pop(waiter.ticket)
                return
        token = self.new_token(waiter.asks)
        for ask in waiter.asks:
            entry = Entry(token, self.now, ask.weight, self.now + self.take_up, by)
            self.at(ask.resource).holders[waiter.ticket] = entry
        grants.append(self._grant(waiter, token, self.now + self.take_up))

    def handed_on(self, names: Sequence[str], by: str) -> list[Grant]:
        """What an earlier call in this name handed on and nobody took up: the answer to its repetition."""
        return [
            self._grant(at.tickets[name], entry.token, entry.ends)
            for at in map(self.at, names)
            for name, entry in at.holders.items()
            if entry.by == by and name in at.tickets
        ]

    @staticmethod
    def _grant(waiter: Waiter, token: int, ends: int) -> Grant:
        payload = waiter.payload or b""
        return Grant(waiter.ticket, token, waiter.claims, payload, seconds(ends))
