"""The reference: the same answers as the other stores, in plain Python under one lock."""

from __future__ import annotations

import time
from copy import deepcopy
from math import inf
from typing import TYPE_CHECKING

from ...core.formats import NewerFormat, format_warnings
from ...core.key import semaphore_of
from ...core.permit import (
    Answer,
    Claim,
    Grant,
    Kind,
    Permit,
    Publication,
    Renewal,
    Renewals,
    Snapshot,
    Wait,
)
from ..asking import (
    Ask,
    asks,
    brief,
    check_holder,
    check_limit,
    check_name,
    check_ticket,
    microseconds,
)
from ..turn import Turn
from .asking import Asking
from .books import Books
from .listener import MemoryListener
from .messages import Messages
from .newer import release_in_newer, renewed_in_newer
from .resource import Waiter
from .view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...core.store import Outgoing


PATIENCE = 2.0  # seconds for other calls in this process


class MemoryStore:
    """Keeps permits in this process. ``now`` replaces the clock, for tests only."""

    def __init__(
        self,
        *,
        lease: float = 30.0,
        take_up: float | None = None,
        epoch: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.lease = lease
        self.epoch = epoch
        self._lock = Turn(PATIENCE)
        self._books = Books(microseconds(lease), microseconds(take_up or lease))
        self._clock = now
        self._listeners: set[MemoryListener] = set()

    def check(self, *, parks: bool = False) -> list[str]:
        lost = "Parked tasks lie in this process, and are lost at its end: use redis://..., or on_saturated='requeue'."
        return [lost] * parks + format_warnings(self._books.epoch.format)

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        publication: Publication | None = None,
    ) -> Answer:
        check_holder(holder, publication)
        with self._lock:
            return Asking(self._entered(), claims, holder, wait, publication).answer()

    def attach(
        self,
        ticket: str,
        claims: Sequence[Claim],
        payload: bytes,
        *,
        name: str = "",
        ends_in: float | None = None,
    ) -> Outgoing:
        check_ticket(ticket)
        check_name("message", name)
        with self._lock:
            wanted, books = asks(claims), self._entered()
            books.drop(wanted)
            ticket = books.known_as(wanted, ticket)
            standing = [ask.resource for ask in wanted if ticket in books.at(ask.resource).tickets]
            home = books.at((standing or [wanted[0].resource])[-1])
            ends = inf if ends_in is None else books.now + microseconds(ends_in)
            home.tickets[ticket] = Waiter(
                ticket, Kind.PARK, brief(claims), tuple(wanted), books.now, payload, name, ends
            )
            books.attached(home, ticket)
            return self._handed_on(wanted)

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        with self._lock:
            try:
                self._entered()
            except NewerFormat:
                return {permit.holder: renewed_in_newer(self._books, permit) for permit in permits}
            return {permit.holder: self._renewed(permit) for permit in permits}

    def release(
        self, holder: str, claims: Sequence[Claim], publication: Publication | None = None
    ) -> Outgoing:
        with self._lock:
            try:
                books = self._entered()
            except NewerFormat:
                release_in_newer(self._books, holder, asks(claims), publication)
                return frozenset()  # a newer process hands on
            return self._released(books, holder, asks(claims), publication)

    def reap(self, limit: int = 100) -> Outgoing:
        with self._lock:
            try:
                books = self._entered()
            except NewerFormat:
                return frozenset()  # newer processes reap
            forgotten = books.now - 10 * books.lease
            for name, at in list(books.resources.items()):
                if at.idle() and at.touched < forgotten:
                    del books.resources[name]
            used = [at for at in books.resources.values() if not at.idle()]
            used.sort(key=lambda at: at.looked_at if at.looked_at <= books.now else 0)
            for at in used[:limit]:
                at.looked_at = books.now
            wanted = [Ask(at.name, 0, 0) for at in used[:limit]]
            books.drop(wanted)
            return self._handed_on(wanted)

    def end(self, names: Sequence[str]) -> Outgoing:
        with self._lock:
            books = self._entered()
            parked = books.parked(names)
            for at, waiter in parked:
                at.end(waiter.ticket, books.now + books.take_up)
            return self._handed_on([Ask(at.name, 0, 0) for at, _ in parked])

    def promote(self, names: Sequence[str]) -> Outgoing:
        with self._lock:
            books = self._entered()
            parked = books.parked(names)
            for at, waiter in parked:
                at.promote(waiter)
            return self._handed_on([Ask(at.name, 0, 0) for at, _ in parked])

    def take(self, outgoing: Outgoing) -> list[Grant]:
        with self._lock:
            books = self._entered()
            return [grant for name in sorted(outgoing) for grant in books.take(name)]

    def sent(self, grants: Sequence[Grant]) -> None:
        with self._lock:
            books = self._entered()
            for grant in grants:
                books.sent(grant)

    def listen(self, ticket: str) -> MemoryListener:
        with self._lock:
            listener = MemoryListener(ticket, closed=self._listeners.discard)
            self._listeners.add(listener)
            return listener

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        with self._lock:
            return view(self._entered(), resource, waiters, skip)

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        return (self.snapshot(name, waiters=0) for name in resources)

    def resources(self) -> Iterator[str]:
        with self._lock:
            return iter([n for n, at in self._books.resources.items() if not at.idle()])

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        with self._lock:
            books = self._entered()
            books.limits.pop(resource, None)
            if limit is not None:
                books.limits[resource] = limit
            keyed = resource != semaphore_of(resource)
            used = (
                [resource] if keyed else [n for n in books.resources if semaphore_of(n) == resource]
            )
            wanted = [Ask(name, 0, 0) for name in used]
            books.drop(wanted)
            return self._handed_on(wanted)

    def limits(self) -> dict[str, int]:
        with self._lock:
            return dict(self._books.limits)

    def close(self) -> None:
        """Nothing to close."""

    def forget(self) -> None:
        """Lose everything, as a server does that restarts without its data."""
        with self._lock:
            self._books = Books(self._books.lease, self._books.take_up)

    def remember(self) -> Callable[[], None]:
        """What makes it lose all that came after, as the failover to a replica that lags does."""
        with self._lock:
            kept = deepcopy(self._books)
            kept.epoch.restarted = True

        def lose_the_rest() -> None:
            with self._lock:
                self._books = kept

        return lose_the_rest

    def set_format(self, number: int) -> None:
        """Say that all it keeps is of this format, as newer processes of a server would: for tests."""
        with self._lock:
            self._books.epoch.format = number

    def _entered(self) -> Books:
        self.epoch = self._books.enter(microseconds(self._clock()), self.epoch)
        return self._books

    def _released(
        self, books: Books, holder: str, wanted: Sequence[Ask], publication: Publication | None
    ) -> Outgoing:
        Messages(books, wanted[0].resource, publication, None).ran(holder)
        books.drop(wanted)
        for ask in wanted:
            at = books.at(ask.resource)
            entry = at.holders.pop(holder, None)
            if entry and not entry.granted:
                at.learn(max(0, books.now - entry.since))  # the clock may have stepped back
            at.bury(holder, books.now + books.lease)
            made = at.made_by(holder)
            if made and at.tickets[made].payload is None:
                books.taken_up(wanted, made)  # nobody knows that it was handed anything
            at.forget(holder)
        return self._handed_on(wanted)

    def _renewed(self, permit: Permit) -> Renewal:
        books, wanted = self._books, asks(permit.claims)
        books.drop(wanted)
        part, whole = books.held(wanted, permit.holder)
        own = (permit.holder, "" if whole else books.granted(wanted[0].resource, permit.token))
        if not whole and not self._forgotten(permit, wanted, own):
            if part:
                books.end_part(wanted, permit.holder)
            return Renewal.LOST
        names = [ask.resource for ask in wanted]
        restored = [name for name in names if not books.at(name).remembers(books.epoch.id, own)]
        books.taken_up(wanted, own[1])
        since = microseconds(permit.acquired_at)
        books.write(wanted, permit.holder, permit.token, since, restored)
        return Renewal.OK if whole else Renewal.RESTORED

    def _forgotten(self, permit: Permit, wanted: Sequence[Ask], own: Sequence[str]) -> bool:
        """Not released since, not known to the present epoch, and not above the limit."""
        books = self._books
        if not books.in_grace or permit.epoch == books.epoch.id:
            return False
        return all(
            permit.holder not in books.at(ask.resource).released
            and books.has_room_for_living(ask, own)
            for ask in wanted
        )

    def _handed_on(self, wanted: Sequence[Ask]) -> Outgoing:
        outgoing = self._books.hand_on([ask.resource for ask in wanted])
        if called := self._books.called:
            for listener in self._listeners.copy():  # in one step: closing takes no lock
                if listener.ticket in called:
                    listener.call()
            called.clear()
        return outgoing
