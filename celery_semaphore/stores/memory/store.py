"""The reference: the same answers as the other stores, in plain Python under one lock."""

from __future__ import annotations

import time
from math import inf
from threading import Lock
from typing import TYPE_CHECKING

from ...core.key import resource_name
from ...core.permit import (
    Answer,
    Claim,
    Grant,
    Kind,
    Permit,
    Reason,
    Refusal,
    Renewal,
    Renewals,
    Snapshot,
    Wait,
)
from ..asking import DEFAULT_MEAN, Ask, asks, microseconds, seconds, ticket_parts
from .books import Books
from .resource import Waiter
from .view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


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
        self._lock = Lock()
        self._books = Books(microseconds(lease), microseconds(take_up or lease))
        self._clock = now

    def check(self) -> list[str]:
        return []

    def acquire(self, claims: Sequence[Claim], holder: str, wait: Wait | None = None) -> Answer:
        with self._lock:
            wanted, books = asks(claims), self._entered()
            books.drop(wanted)
            for ask in wanted:
                books.at(ask.resource).declared = ask.limit
            ticket = self._ticket(wanted, holder, wait)
            there, whole = books.held(wanted, holder)
            if there and whole:
                return self._permit(claims, holder)
            if there:
                books.end_part(wanted, holder)
            for ask in wanted:
                if holder in books.at(ask.resource).released:
                    return self._refused(claims, wanted, ask, Reason.RELEASED, ticket, wait)
            grant, whole = books.held(wanted, ticket)
            for ask in wanted:
                books.at(ask.resource).holders.pop(ticket, None)
            if grant and whole:
                books.write(wanted, holder, grant.token, grant.since)
            else:
                for ask in wanted:
                    if reason := books.refusal(ask, ticket):
                        return self._refused(claims, wanted, ask, reason, ticket, wait)
                books.write(wanted, holder, books.new_token(wanted), books.now)
            books.forget_ticket(wanted, ticket)
            return self._permit(claims, holder)

    def attach(self, ticket: str, claims: Sequence[Claim], payload: bytes) -> list[Grant]:
        if not ticket_parts(ticket):
            msg = f"no ticket of this store: {ticket!r}"
            raise ValueError(msg)
        with self._lock:
            wanted, books = asks(claims), self._entered()
            books.drop(wanted)
            standing = [ask.resource for ask in wanted if ticket in books.at(ask.resource).tickets]
            home = books.at((standing or [wanted[0].resource])[-1])
            waiter = Waiter(ticket, Kind.PARK, tuple(claims), tuple(wanted), books.now)
            home.park(waiter, payload)
            return self._handed_on(wanted, ticket, repeated=True)

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        with self._lock:
            self._entered()
            return {permit.holder: self._renewed(permit) for permit in permits}

    def release(self, holder: str, claims: Sequence[Claim]) -> list[Grant]:
        with self._lock:
            wanted, books = asks(claims), self._entered()
            books.drop(wanted)
            repeated = False
            for ask in wanted:
                at = books.at(ask.resource)
                entry = at.holders.pop(holder, None)
                if entry and entry.by is None:
                    at.learn(books.now - entry.since)
                repeated = repeated or holder in at.released
                at.bury(holder, books.now + books.lease)
                made = at.made_by(holder)
                if made and at.tickets[made].payload is None:
                    del at.tickets[made]
                at.tickets.pop(holder, None)
            return self._handed_on(wanted, holder, repeated=repeated)

    def reap(self, limit: int = 100) -> list[Grant]:
        with self._lock:
            books = self._entered()
            forgotten = books.now - 10 * books.lease
            for name, at in list(books.resources.items()):
                if at.idle() and at.idle_since < forgotten:
                    del books.resources[name]
            used = [Ask(name, 0, 0) for name, at in books.resources.items() if not at.idle()]
            books.drop(used[:limit])
            return self._handed_on(used[:limit], "reap", repeated=False)

    def snapshot(self, resource: str, waiters: int = 100) -> Snapshot:
        with self._lock:
            return view(self._entered(), resource, waiters)

    def resources(self) -> Iterator[str]:
        with self._lock:
            return iter([n for n, at in self._books.resources.items() if not at.idle()])

    def set_limit(self, limit: int | None, semaphore: str, key: str | None = None) -> list[Grant]:
        if limit is not None and limit < 0:
            msg = f"a limit is a whole number from 0 on, not {limit!r}"
            raise ValueError(msg)
        with self._lock:
            name, books = resource_name(semaphore, key), self._entered()
            books.limits.pop(name, None)
            if limit is not None:
                books.limits[name] = limit
            used = [n for n in books.resources if n == name or n.startswith(f"{name}/")]
            wanted = [Ask(name, 0, 0) for name in used]
            books.drop(wanted)
            return self._handed_on(wanted, "reap", repeated=False)

    def close(self) -> None:
        """Nothing to close."""

    def forget(self) -> None:
        """Lose everything, as a server does that restarts without its data."""
        with self._lock:
            self._books = Books(self._books.lease, self._books.take_up)

    def _entered(self) -> Books:
        self.epoch = self._books.enter(microseconds(self._clock()), self.epoch)
        return self._books

    def _permit(self, claims: Sequence[Claim], holder: str) -> Permit:
        entry = self._books.at(claims[0].resource).holders[holder]
        since, ends = seconds(entry.since), seconds(entry.ends)
        return Permit(holder, entry.token, tuple(claims), since, ends, self.epoch or 0)

    def _ticket(self, wanted: Sequence[Ask], holder: str, wait: Wait | None) -> str:
        """The wait's own, or the one made in a call whose answer was lost, or a new one."""
        if wait and wait.ticket and ticket_parts(wait.ticket):
            return wait.ticket
        for ask in wanted:
            if made := self._books.at(ask.resource).made_by(holder):
                return made
        priority = min(255, max(0, wait.priority if wait else 0))
        return f"{255 - priority:03}.{self._books.now:016}.{holder}"

    def _refused(
        self,
        claims: Sequence[Claim],
        wanted: list[Ask],
        ask: Ask,
        reason: Reason,
        ticket: str,
        wait: Wait | None,
    ) -> Refusal:
        books, at = self._books, self._books.at(ask.resource)
        waited = max(0, books.now - (ticket_parts(ticket) or (0, 0))[1])
        position = sum(1 for _ in at.line(before=ticket))
        left = microseconds(wait.timeout) - waited if wait and wait.timeout is not None else inf
        retry = int(min(left, self._delay(ask, reason, position, wait or Wait(Kind.REQUEUE))))
        kept: str | None = None
        if wait and reason is not Reason.RELEASED:
            before = books.forget_ticket(wanted, ticket)
            if left <= 0:
                reason, retry = Reason.TIMED_OUT, 0
            else:
                kept = ticket
                payload = before.payload if before and wait.kind is Kind.PARK else None
                waiter = Waiter(
                    ticket, wait.kind, tuple(claims), tuple(wanted), books.now + retry, payload
                )
                at.tickets[ticket] = waiter
        limit = books.limit(ask.resource) or 0
        claim = next(claim for claim in claims if claim.resource == ask.resource)
        return Refusal(
            claim,
            reason,
            limit,
            at.occupied(),
            kept,
            position,
            seconds(retry),
            seconds(waited),
        )

    def _delay(self, ask: Ask, reason: Reason, position: int, wait: Wait) -> float:
        """When a permit can be expected: its turn, by the mean time that permits were held lately."""
        books, at = self._books, self._books.at(ask.resource)
        shortest, longest = microseconds(wait.shortest), microseconds(wait.longest)
        mean = DEFAULT_MEAN if at.mean is None else at.mean
        limit = books.limit(ask.resource) or 1
        delay = wait.jitter * (position + 1) / limit * mean
        if reason in (Reason.PAUSED, Reason.UNSATISFIABLE):
            delay = min(longest, books.lease)
        delay = max(shortest, min(longest, delay))
        if reason is Reason.RECOVERING:
            delay = max(delay, books.grace_until - books.now)
        return delay

    def _renewed(self, permit: Permit) -> Renewal:
        books, wanted = self._books, asks(permit.claims)
        books.drop(wanted)
        part, whole = books.held(wanted, permit.holder)
        if not (part and whole) and not self._forgotten(permit, wanted):
            if part:
                books.end_part(wanted, permit.holder)
            return Renewal.LOST
        books.write(wanted, permit.holder, permit.token, microseconds(permit.acquired_at))
        return Renewal.OK if whole else Renewal.RESTORED

    def _forgotten(self, permit: Permit, wanted: Sequence[Ask]) -> bool:
        """Not released since, not known to the present memory, and not above the limit."""
        books = self._books
        if not books.in_grace or permit.epoch == books.epoch:
            return False
        for ask in wanted:
            at, limit = books.at(ask.resource), books.limit(ask.resource, ask.limit) or 0
            others = sum(e.weight for name, e in at.holders.items() if name != permit.holder)
            if permit.holder in at.released or others + ask.weight > limit:
                return False
        return True

    def _handed_on(self, wanted: Sequence[Ask], by: str, *, repeated: bool) -> list[Grant]:
        names = [ask.resource for ask in wanted]
        before = self._books.handed_on(names, by) if repeated else []
        return before + self._books.hand_on(names, by)
