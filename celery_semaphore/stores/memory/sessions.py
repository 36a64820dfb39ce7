"""What a session asks for its waits: docs/architecture.md, chapters 5 and 8."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.session import EXPECTED, NAMED, Standing, Turns
from ...core.ticket import nonce_of
from ..encoding import DEFAULT_MEAN, asks, brief, check_ticket, microseconds, seconds
from .state import GRANT
from .waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.session import HeldWait
    from ..encoding import Ask
    from .resource import Resource
    from .state import Books


def ask(books: Books, session: str, begun: Sequence[HeldWait], look: Sequence[HeldWait]) -> Turns:
    slept = not books.is_awake(session)  # Q2
    books.wake(session)
    granted = _granted(books, session)  # Q3
    for wait in begun:
        if (nonce := nonce_of(wait.ticket)) in granted:
            _prolong(books, wait, nonce)  # Q4
    expected = {
        nonce_of(wait.ticket): turn
        for wait in look[:EXPECTED]
        if (turn := _turn_of(books, wait)) is not None  # Q5
    }
    return Turns(books.epoch.id, slept, len(books.sessions), granted, expected)


def name(books: Books, session: str, waits: Sequence[HeldWait]) -> dict[str, Standing]:
    return {wait.ticket: _named(books, session, wait) for wait in waits[:NAMED]}


def _granted(books: Books, session: str) -> frozenset[str]:
    return frozenset(
        nonce
        for at in books.resources.values()
        for nonce, waiter in at.tickets.items()
        if waiter.session == session
        if (entry := at.grants.get(nonce)) and entry.ends > books.now
    )


def _prolong(books: Books, wait: HeldWait, nonce: str) -> None:
    for each in asks(wait.claims):
        grants = books.at(each.resource).grants
        if nonce in grants:
            grants[nonce] = replace(grants[nonce], ends=books.now + GRANT)


def _turn_of(books: Books, wait: HeldWait) -> float | None:
    nonce = nonce_of(wait.ticket)
    for at in books.standing(asks(wait.claims), nonce):
        waiter, limit = at.tickets[nonce], books.limit(at.name)
        if limit and waiter in (line := at.line()):
            return seconds((line.index(waiter) + 1) * _hold(at) // limit)
    return None


def _hold(at: Resource) -> int:
    """Return how long a permit is held, for polls: short if the newest was, however long others took.

    A session that expects too much lets permits idle; one that expects too little asks a few times more.
    """
    if at.mean is None:
        return DEFAULT_MEAN
    return round(at.mean if at.latest is None else min(at.mean, at.latest))


def _named(books: Books, session: str, wait: HeldWait) -> Standing:
    ticket, wanted = check_ticket(wait.ticket), asks(wait.claims)
    found = books.standing(wanted, ticket.nonce)
    if not found and _was_sent(books, wanted, ticket.nonce):
        return Standing.ELSEWHERE  # N4
    if not found:  # N1
        # A grant that is overdue: if it ended later, this wait would be in transit with it (E7).
        books.end_grant(wanted, ticket.nonce)
        waiter = Waiter(ticket, wait.kind, brief(wait.claims), tuple(wanted), books.now)
        waiter = replace(waiter, session=session, keeps=microseconds(wait.keeps))
        _stand(books, books.at(wanted[0].resource), waiter)
        return Standing.WAITS
    at = found[-1]
    waiter = at.tickets[ticket.nonce]
    if waiter.session != session:  # N4
        return Standing.ELSEWHERE
    if waiter.away:  # N2, else N3
        _stand(books, at, waiter)
    return Standing.WAITS


def _was_sent(books: Books, wanted: Sequence[Ask], nonce: str) -> bool:
    """Whether its message is on its way, with a grant that has not ended."""
    grants = (books.at(each.resource).grants.get(nonce) for each in wanted)
    return any(each and (each.ends > books.now or books.in_grace) for each in grants)


def _stand(books: Books, at: Resource, waiter: Waiter) -> None:
    away = not books.is_awake(waiter.session)
    at.tickets[waiter.nonce] = replace(waiter, away=away, due=books.now if away else waiter.due)
    at.looked_at = 0  # the next reap hands on
