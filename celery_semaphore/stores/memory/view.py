"""One resource of the books as a snapshot."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ...core.permit import Held, Snapshot, Ticket
from ..asking import seconds, ticket_parts
from .resource import Resource

if TYPE_CHECKING:
    from .books import Books
    from .resource import Waiter


def view(books: Books, name: str, most: int, skip: int) -> Snapshot:
    at = books.resources.get(name) or Resource(name)
    limit = books.limit(name)
    held = _held(books, at)
    shown = islice(at.line(), skip, skip + most)
    return Snapshot(
        name,
        limit,
        name in books.limits or name.partition("/")[0] in books.limits,
        sum(one.weight for one in held),
        None if at.mean is None else seconds(round(at.mean)),
        tuple(held),
        tuple(_ticket(at, limit, n, w) for n, w in enumerate(shown, skip)),
        sum(1 for _ in at.line()),
        seconds(books.now),
    )


def _held(books: Books, at: Resource) -> list[Held]:
    live = [
        Held(name, e.token, e.weight, seconds(e.since), seconds(e.ends), e.granted)
        for name, e in at.holders.items()
        if e.ends > books.now or books.in_grace
    ]
    return sorted(live, key=lambda one: one.token)


def _ticket(at: Resource, limit: int | None, position: int, waiter: Waiter) -> Ticket:
    priority, place = ticket_parts(waiter.ticket) or (0, 0)
    weight = waiter.weight_at(at.name)
    return Ticket(
        waiter.ticket,
        waiter.kind,
        weight,
        priority,
        position,
        seconds(place),
        seconds(waiter.due),
        limit is not None and 0 < limit < weight,
    )
