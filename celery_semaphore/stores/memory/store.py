"""The reference: the same answers as the other stores, in plain Python under one lock."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING

from ...core.formats import NewerFormat, format_warnings
from ...core.key import semaphore_of
from ...core.permit import (
    Answer,
    Claim,
    Grant,
    Permit,
    Publication,
    Renewals,
    Snapshot,
    Wait,
)
from ..encoding import (
    Ask,
    asks,
    check_holder,
    check_limit,
    check_name,
    check_ticket,
    microseconds,
)
from ..non_reentrant_lock import Turn
from . import sessions
from .acquisition import Asking
from .handing_on import hand_on
from .newer import release_in_newer, renewed_in_newer
from .outbox import attach, sent, take
from .permits import release, renewed
from .state import Books
from .view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...core.session import HeldWait, Standing, Turns
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
        fields = check_ticket(ticket)
        check_name("message", name)
        with self._lock:
            books, ends = self._entered(), None if ends_in is None else microseconds(ends_in)
            attach(books, fields, claims, payload, name=name, ends_in=ends)
            return self._handed_on(asks(claims))

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        with self._lock:
            try:
                self._entered()
            except NewerFormat:
                return {permit.holder: renewed_in_newer(self._books, permit) for permit in permits}
            return {permit.holder: renewed(self._books, permit) for permit in permits}

    def release(
        self, holder: str, claims: Sequence[Claim], publication: Publication | None = None
    ) -> Outgoing:
        with self._lock:
            try:
                books = self._entered()
            except NewerFormat:
                release_in_newer(self._books, holder, asks(claims), publication)
                return frozenset()  # a newer process hands on
            release(books, holder, asks(claims), publication)
            return self._handed_on(asks(claims))

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
            books.look_at(wanted)
            return self._handed_on(wanted)

    def end(self, names: Sequence[str]) -> Outgoing:
        with self._lock:
            books = self._entered()
            concerned = books.with_messages(names)
            for at in concerned:
                for waiter in at.parked(names):
                    at.end(waiter.nonce, books.now + books.take_up)
            return self._handed_on([Ask(at.name, 0, 0) for at in concerned])

    def promote(self, tickets: Sequence[str], resource: str) -> Outgoing:
        with self._lock:
            books, wanted = self._entered(), [Ask(resource, 0, 0)]
            books.drop(wanted)
            at, nonces = books.at(resource), {check_ticket(ticket).nonce for ticket in tickets}
            for waiter in at.line():
                if waiter.nonce in nonces:
                    at.tickets[waiter.nonce] = waiter.promoted()
            return self._handed_on(wanted)

    def take(self, outgoing: Outgoing) -> list[Grant]:
        with self._lock:
            books = self._entered()
            return [grant for name in sorted(outgoing) for grant in take(books, name)]

    def sent(self, grants: Sequence[Grant]) -> None:
        with self._lock:
            books = self._entered()
            for grant in grants:
                sent(books, grant)

    def ask(
        self, session: str, begun: Sequence[HeldWait] = (), look: Sequence[HeldWait] = ()
    ) -> Turns:
        check_name("session", session)
        with self._lock:
            return sessions.ask(self._entered(), session, begun, look)

    def sleep(self, session: str) -> None:
        with self._lock:
            self._entered().sessions.pop(session, None)  # Q6

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[str, Standing]:
        check_name("session", session)
        with self._lock:
            return sessions.name(self._entered(), session, waits)

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
            books.look_at(wanted)
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

    def _handed_on(self, wanted: Sequence[Ask]) -> Outgoing:
        return hand_on(self._books, [ask.resource for ask in wanted])
