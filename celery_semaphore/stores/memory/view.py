"""One resource of the books as a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Held, Snapshot, Ticket
from ..encoding import seconds
from .resource import Resource

if TYPE_CHECKING:
    from .state import Books
    from .waiter import Waiter


def view(books: Books, name: str, most: int, skip: int) -> Snapshot:
    at = books.resources.get(name) or Resource(name)
    limit = books.limit(name)
    held = _held(books, at)
    line = at.line()
    return Snapshot(
        name,
        limit,
        name in books.limits or name.partition("/")[0] in books.limits,
        sum(one.weight for one in held),
        None if at.mean is None else seconds(round(at.mean)),
        tuple(held),
        tuple(
            _ticket(books, at, limit, n, w) for n, w in enumerate(line[skip : skip + most], skip)
        ),
        len(line),
        seconds(books.now),
    )


def _held(books: Books, at: Resource) -> list[Held]:
    permits = [(holder, entry) for holder, entry in at.holders.items()]
    grants = [(entry.ticket.text, entry) for entry in at.grants.values() if entry.ticket]
    live = [
        Held(name, e.token, e.weight, seconds(e.since), seconds(e.ends), e.granted)
        for name, e in permits + grants
        if e.ends > books.now or books.in_grace
    ]
    return sorted(live, key=lambda one: one.token)


def _ticket(books: Books, at: Resource, limit: int | None, position: int, waiter: Waiter) -> Ticket:
    ticket, weight = waiter.ticket, waiter.weight_at(at.name)
    return Ticket(
        ticket.text,
        waiter.kind,
        weight,
        ticket.priority,
        position,
        seconds(ticket.place),
        seconds(waiter.due),
        limit is not None and 0 < limit < weight,
        waiter.session,
        books.is_reachable(waiter),
    )
