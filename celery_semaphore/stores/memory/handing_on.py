"""Who is next: what is free goes to the wait that stands first, of those that are here or about to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Reason
from .resource import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing
    from .books import Books
    from .resource import Resource
    from .waiter import Waiter


def hand_on(books: Books, names: Sequence[str]) -> Outgoing:
    """Grant what is free in these resources; return those whose outboxes have messages."""
    for name in names:
        at = books.at(name)
        coming = [waiter for waiter in at.line() if _is_expected(books, at, waiter)]
        coming.reverse()
        while _try_next(books, at, coming):
            pass
    return frozenset(name for name in names if books.at(name).outbox)


def _is_expected(books: Books, at: Resource, waiter: Waiter) -> bool:
    """Whether it comes back by itself, and that soon enough to keep a permit for it."""
    early, late = at.patience(books.take_up)
    return not (waiter.stays or waiter.ended) and -late < waiter.due - books.now <= early


def _try_next(books: Books, at: Resource, coming: list[Waiter]) -> bool:
    head = next((w for w in at.line() if w.stays and _fits_ever(books, at, w)), None)
    if not head:
        return False  # what is free goes to whoever asks
    waiter = coming.pop() if coming and coming[-1].ticket.turn < head.ticket.turn else head
    why = books.refusal(waiter.ask_at(at.name), waiter.ticket)
    if why is None:
        _grant_or_move(books, at, waiter)
    # Who does not fit blocks the line, or heavy ones would starve.
    return why in (None, Reason.UNSATISFIABLE)


def _fits_ever(books: Books, at: Resource, waiter: Waiter) -> bool:
    ask = waiter.ask_at(at.name)
    return ask.weight <= (books.limit(at.name, ask.limit) or 0)


def _grant_or_move(books: Books, at: Resource, waiter: Waiter) -> None:
    books.drop(waiter.asks)
    for ask in waiter.asks:
        if ask.resource != at.name and books.refusal(ask, waiter.ticket):
            books.at(ask.resource).tickets[waiter.nonce] = waiter
            at.forget(waiter.nonce)
            return
    _grant(books, at, waiter)


def _grant(books: Books, at: Resource, waiter: Waiter) -> None:
    token, ends = books.new_token(waiter.asks), books.now + books.take_up
    if not waiter.stays:
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
    elif waiter.stays:
        books.called.add(waiter.nonce)
