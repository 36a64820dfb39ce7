"""Hand-on: a free permit goes to the first wait in line, of those that are reachable."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..encoding import Ask
from .resource import Entry
from .state import GRANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store import Outgoing
    from .resource import Resource
    from .state import Books
    from .waiter import Waiter


def hand_on(books: Books, names: Sequence[str]) -> Outgoing:
    """Grant what is free in these resources; return those whose outboxes have messages.

    A head that asks other resources, too, is tried together with those, and what is free there is handed on likewise.
    """
    needed = list[str]()
    for name in names:
        at = books.at(name)
        while waiter := _next(books, at):
            if not {ask.resource for ask in waiter.asks}.issubset(names):
                needed = [ask.resource for ask in waiter.asks]
                break
            _grant_or_move(books, at, waiter)
    outgoing = frozenset(name for name in names if books.at(name).outbox)
    if not needed:
        return outgoing
    together = list(dict.fromkeys([*names, *needed]))
    books.look_at([Ask(name, 0, 0) for name in together])
    return outgoing | hand_on(books, together)


def _next(books: Books, at: Resource) -> Waiter | None:
    """Return the first in line, if this resource has room for it: else it blocks the line, or heavy ones would starve."""
    head = books.first(at)
    if head and not books.refusal(head.ask_at(at.name), head.ticket):
        return head
    return None  # a free permit goes to the next acquire


def _grant_or_move(books: Books, at: Resource, waiter: Waiter) -> None:
    for ask in waiter.asks:
        if ask.resource != at.name and books.refusal(ask, waiter.ticket):
            _move(at, books.at(ask.resource), waiter)
            return
    _grant(books, at, waiter)


def _move(at: Resource, other: Resource, waiter: Waiter) -> None:
    """H8: what stands there already was refused since, with other claims, and its message may be there: it stays."""
    there = other.tickets.get(waiter.nonce, waiter)
    ticket = min(there.ticket, waiter.ticket, key=lambda each: each.turn)
    other.tickets[waiter.nonce] = replace(there, ticket=ticket)
    at.forget(waiter.nonce)


def _grant(books: Books, at: Resource, waiter: Waiter) -> None:
    token = books.new_token(waiter.asks)
    ends = books.now + (GRANT if waiter.session else books.take_up)
    for ask in waiter.asks:
        books.at(ask.resource).grants[waiter.nonce] = Entry(
            token, books.now, ask.weight, ends, books.epoch.id, ticket=waiter.ticket
        )
    if waiter.payload is not None:
        at.outbox[waiter.nonce] = token
