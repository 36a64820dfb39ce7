"""Hand-on: a free permit goes to the first wait in line, of those that are reachable or due soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Reason
from ..asking import Ask
from .resource import Entry
from .sessions import GRANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing
    from .books import Books
    from .resource import Resource
    from .waiter import Waiter


def hand_on(books: Books, names: Sequence[str]) -> Outgoing:
    """Grant what is free in these resources; return those whose outboxes have messages.

    A head that asks other resources, too, is tried together with those, and what is free there is handed on likewise.
    """
    needed = list[str]()
    for name in names:
        at = books.at(name)
        coming = [waiter for waiter in at.line() if _is_expected(books, at, waiter)]
        coming.reverse()
        while waiter := _next(books, at, coming):
            if not {ask.resource for ask in waiter.asks}.issubset(names):
                needed = [ask.resource for ask in waiter.asks]
                break
            _grant_or_move(books, at, waiter)
    outgoing = frozenset(name for name in names if books.at(name).outbox)
    if not needed:
        return outgoing
    together = list(dict.fromkeys([*names, *needed]))
    books.drop([Ask(name, 0, 0) for name in together])
    return outgoing | hand_on(books, together)


def _is_expected(books: Books, at: Resource, waiter: Waiter) -> bool:
    """Whether it comes back by itself, and that soon enough to keep a permit for it."""
    early, late = at.patience(books.take_up)
    return waiter.comes_back and -late < waiter.due - books.now <= early


def _next(books: Books, at: Resource, coming: list[Waiter]) -> Waiter | None:
    """Return the wait that this resource has room for, if it is next."""
    while head := books.first(at):
        waiter = coming.pop() if coming and coming[-1].ticket.turn < head.ticket.turn else head
        why = books.refusal(waiter.ask_at(at.name), waiter.ticket)
        if why is None:
            return waiter
        if why is not Reason.UNSATISFIABLE:
            break  # a wait that does not fit blocks the line, or heavy ones would starve
    return None  # a free permit goes to the next acquire


def _grant_or_move(books: Books, at: Resource, waiter: Waiter) -> None:
    for ask in waiter.asks:
        if ask.resource != at.name and books.refusal(ask, waiter.ticket):
            books.at(ask.resource).tickets[waiter.nonce] = waiter
            at.forget(waiter.nonce)
            return
    _grant(books, at, waiter)


def _grant(books: Books, at: Resource, waiter: Waiter) -> None:
    token, ends = books.new_token(waiter.asks), books.now + books.take_up
    if waiter.session:
        ends = books.now + GRANT
    elif not waiter.stays:
        ends = waiter.due + at.patience(books.take_up)[1]
    for ask in waiter.asks:
        books.at(ask.resource).grants[waiter.nonce] = Entry(
            token,
            books.now,
            ask.weight,
            ends,
            books.epoch.id,
            ticket=waiter.ticket,
            kept=not waiter.stays,
        )
    if waiter.payload is not None:
        at.outbox[waiter.nonce] = None
