"""All resources of one store at one instant: who is let in, who is not, and who is next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...core.permit import Grant, Reason
from ..asking import Ask, asks, maker_of, promoted, seconds
from .epoch import Epoch
from .resource import Entry, Remembered, Resource, Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing


@dataclass
class Books:
    """``enter`` sets the instant; all else happens at it."""

    lease: int
    take_up: int
    resources: dict[str, Resource] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)  # set by operators
    messages: dict[tuple[str, str], Remembered] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)  # tickets whose callers must hear of their grants
    now: int = 0

    def __post_init__(self) -> None:
        self.epoch = Epoch(self.lease)

    def enter(self, now: int, known: int | None) -> int:
        self.now = now
        return self.epoch.enter(now, known or 0, self._furthest)

    @property
    def _furthest(self) -> int:
        """The clock stepped back where anything lies further ahead: that is cut when it is seen.

        It is three times what it can be, as on the other stores, where leases may differ for a while.
        """
        return self.now + 3 * max(self.lease, self.take_up)

    @property
    def in_grace(self) -> bool:
        return self.now < self.epoch.grace_until

    def at(self, name: str) -> Resource:
        found = self.resources.setdefault(name, Resource(name))
        found.touched = self.now
        return found

    def remembered(self, name: tuple[str, str]) -> Remembered | None:
        """What is known of a task's messages; forgets what nobody needs any more."""
        while self.messages and next(iter(self.messages.values())).until <= self.now:
            del self.messages[next(iter(self.messages))]
        found = self.messages.get(name)
        return found if found and found.until > self.now else None

    def drop(self, wanted: Sequence[Ask]) -> None:
        for at in [self.at(ask.resource) for ask in wanted]:
            at.cut(self._furthest)
            if not self.in_grace:  # else the store was away: no holder could renew or come back
                at.drop(self.now, self.lease, self.take_up)

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
            entry and entry.weight == ask.weight and self._lives(ask, entry)
            for ask, entry in zip(wanted, found, strict=True)
        )
        return entry, whole

    def _lives(self, ask: Ask, entry: Entry) -> bool:
        """A grant of an earlier epoch may have been taken up and given back: its ticket asks anew."""
        if entry.epoch != self.epoch.id and (entry.granted or not self.has_room_for_living(ask)):
            return False
        return entry.ends > self.now or self.in_grace

    def has_room_for_living(self, ask: Ask, own: Sequence[str] = ()) -> bool:
        limit = self.limit(ask.resource, ask.limit) or 0
        return self.at(ask.resource).has_room_for_living(ask.weight, limit, self.epoch.id, own)

    def new_token(self, wanted: Sequence[Ask]) -> int:
        token = max(self.now, *(self.at(ask.resource).token + 1 for ask in wanted))
        for ask in wanted:
            self.at(ask.resource).token = token
        return token

    def write(
        self, wanted: Sequence[Ask], name: str, token: int, since: int, restored: Sequence[str] = ()
    ) -> None:
        for ask in wanted:
            at = self.at(ask.resource)
            at.token = max(at.token, token)
            entry = Entry(token, since, ask.weight, self.now + self.lease, self.epoch.id)
            at.holders[name] = replace(entry, restored=ask.resource in restored)

    def forget_ticket(self, wanted: Sequence[Ask], ticket: str) -> Waiter | None:
        """Take it out of whatever line it stands in."""
        found = None
        for ask in wanted:
            found = self.at(ask.resource).forget(ticket) or found
        return found

    def known_as(self, wanted: Sequence[Ask], ticket: str) -> str:
        """The ticket as it is known here: an operator may have promoted it.

        Granted to it may be what its task comes for by another message.
        """
        ats, raised = [self.at(ask.resource) for ask in wanted], promoted(ticket)
        if any(raised in at.holders for at in ats):
            return raised
        standing = (at.made_by(maker_of(ticket)) for at in ats)
        return next(filter(None, standing), ticket)

    def granted(self, name: str, token: int) -> str:
        """The ticket that was handed the permit of this token, if any."""
        holders = self.at(name).holders.items()
        return next((n for n, e in holders if e.granted and e.token == token), "")

    def parked(self, names: Sequence[str]) -> list[tuple[Resource, Waiter]]:
        """Those of these names that wait in the store, and where."""
        wanted = set(names) - {""}
        found = [
            (at, waiter)
            for at in self.resources.values()
            for waiter in at.line()
            if waiter.payload is not None and waiter.name in wanted
        ]
        for at in {at.name: at for at, _ in found}.values():
            self.drop([Ask(at.name, 0, 0)])
        return [(at, waiter) for at, waiter in found if waiter in at.line()]

    def taken_up(self, wanted: Sequence[Ask], ticket: str) -> None:
        """What was handed to it is its holder's, and so is its message, which was delivered."""
        for ask in wanted:
            self.at(ask.resource).holders.pop(ticket, None)
            self.at(ask.resource).forget(ticket)

    def end_part(self, wanted: Sequence[Ask], holder: str) -> None:
        """A permit on some of its claims is none."""
        for ask in wanted:
            self.at(ask.resource).holders.pop(holder, None)
            self.at(ask.resource).bury(holder, self.now + self.lease)

    def hand_on(self, names: Sequence[str]) -> Outgoing:
        """What is free goes to whoever waits longest, of those that are here or about to come."""
        for name in names:
            coming = [w for w in self.at(name).line() if self._is_expected(name, w)]
            coming.reverse()
            while self._try_next(name, coming):
                pass
        return frozenset(name for name in names if self.at(name).outbox)

    def _is_expected(self, name: str, waiter: Waiter) -> bool:
        """Whether it comes back by itself, and that soon enough to keep a permit for it."""
        early, late = self.at(name).patience(self.take_up)
        return not (waiter.stays or waiter.ended) and -late < waiter.due - self.now <= early

    def _try_next(self, name: str, coming: list[Waiter]) -> bool:
        at = self.at(name)
        head = next((w for w in at.line() if w.stays and self._fits_ever(at, w)), None)
        if not head:
            return False  # what is free goes to whoever asks
        waiter = coming.pop() if coming and coming[-1].ticket < head.ticket else head
        here = next(ask for ask in waiter.asks if ask.resource == name)
        why = self.refusal(here, waiter.ticket)
        if why is None:
            self._grant_or_move(at, waiter)
        # Who does not fit blocks the line, or heavy ones would starve.
        return why in (None, Reason.UNSATISFIABLE)

    def _fits_ever(self, at: Resource, waiter: Waiter) -> bool:
        ask = next(ask for ask in waiter.asks if ask.resource == at.name)
        return ask.weight <= (self.limit(at.name, ask.limit) or 0)

    def _grant_or_move(self, at: Resource, waiter: Waiter) -> None:
        self.drop(waiter.asks)
        for ask in waiter.asks:
            if ask.resource != at.name and self.refusal(ask, waiter.ticket):
                self.at(ask.resource).tickets[waiter.ticket] = waiter
                at.forget(waiter.ticket)
                return
        self._grant(at, waiter)

    def _grant(self, at: Resource, waiter: Waiter) -> None:
        token, ends = self.new_token(waiter.asks), self.now + self.take_up
        if not waiter.stays:
            ends = waiter.due + at.patience(self.take_up)[1]
        for ask in waiter.asks:
            entry = Entry(token, self.now, ask.weight, ends, self.epoch.id, granted=True)
            kept = replace(entry, kept=not waiter.stays)
            self.at(ask.resource).holders[waiter.ticket] = kept
        if waiter.payload is not None:
            at.outbox[waiter.ticket] = None
        elif waiter.stays:
            self.called.add(waiter.ticket)

    def attached(self, at: Resource, ticket: str) -> None:
        """Send it out with a permit that was kept for it to come back, if that is all it asks."""
        wanted = at.tickets[ticket].asks
        entry, whole = self.held(wanted, ticket)
        if entry and not whole:
            for ask in wanted:
                self.at(ask.resource).holders.pop(ticket, None)
        elif entry and entry.kept:
            granted = replace(entry, ends=self.now + self.take_up, kept=False)
            for ask in wanted:
                self.at(ask.resource).holders[ticket] = replace(granted, weight=ask.weight)
            at.outbox[ticket] = None

    def take(self, name: str) -> list[Grant]:
        """What must be sent, once; what is not sent comes again when its grant has ended."""
        at, grants = self.at(name), list[Grant]()
        for ticket in at.outbox:
            waiter, entry = at.tickets.get(ticket), at.holders.get(ticket)
            if waiter and waiter.payload is not None and (entry or waiter.ended):
                token, ends = (entry.token, entry.ends) if entry else (0, waiter.ends)
                grants.append(Grant(ticket, token, waiter.claims, waiter.payload, seconds(ends)))
        at.outbox.clear()
        return grants

    def sent(self, grant: Grant) -> None:
        """Its message is with the broker; its permit, if it has one, waits for it."""
        for ask in asks(grant.claims):
            at = self.at(ask.resource)
            entry, waiter = at.holders.get(grant.ticket), at.tickets.get(grant.ticket)
            if entry and entry.granted and entry.token == grant.token:
                at.forget(grant.ticket)
                at.holders[grant.ticket] = replace(entry, ends=self.now + self.take_up)
            elif not grant.token and waiter and waiter.ended and grant.ticket not in at.outbox:
                at.forget(grant.ticket)
            # Else it came back already, and is parked anew.
