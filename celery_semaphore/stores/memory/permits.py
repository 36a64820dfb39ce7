"""What becomes of a permit: it is renewed, put back where the store forgot it, or released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Permit, Publication, Renewal
from ...core.ticket import TicketFields
from ..encoding import Ask, asks, microseconds
from .messages import Messages
from .resource import Own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import Books


def renewed(books: Books, permit: Permit) -> Renewal:
    wanted = asks(permit.claims)
    books.drop(wanted)
    part, whole = books.permit_of(wanted, permit.holder)
    # A store that went back to before the grant was taken up has the grant instead.
    taken_up = None if whole else books.granted(wanted[0].resource, permit.token)
    own = Own(permit.holder, taken_up)
    if not whole and not _is_forgotten(books, permit, wanted, own):
        if part:
            books.end_part(wanted, permit.holder)
        return Renewal.LOST
    names = [ask.resource for ask in wanted]
    restored = [name for name in names if not books.at(name).remembers(books.epoch.id, own)]
    if taken_up:
        books.taken_up(wanted, taken_up)
    since = microseconds(permit.acquired_at)
    books.write(wanted, permit.holder, permit.token, since, restored)
    return Renewal.OK if whole else Renewal.RESTORED


def _is_forgotten(books: Books, permit: Permit, wanted: Sequence[Ask], own: Own) -> bool:
    """Return whether it was not released since, is not of the present epoch, and fits."""
    if not books.in_grace or permit.epoch == books.epoch.id:
        return False
    return all(
        permit.holder not in books.at(ask.resource).released and books.has_room_for_living(ask, own)
        for ask in wanted
    )


def release(
    books: Books, name: str, wanted: Sequence[Ask], publication: Publication | None
) -> None:
    """End what is of this holder, or of this ticket, and see to it that it gets nothing any more."""
    Messages(books, wanted[0].resource, publication).ran(name)
    books.drop(wanted)
    for ask in wanted:
        at = books.at(ask.resource)
        if entry := at.holders.pop(name, None):
            at.learn(max(0, books.now - entry.since))  # the clock may have stepped back
        at.bury(name, books.now + books.lease)
    if ticket := TicketFields.parse(name):
        books.taken_up(wanted, ticket.nonce)
    elif _is_unheard(books, wanted, name):
        books.taken_up(wanted, name)


def _is_unheard(books: Books, wanted: Sequence[Ask], holder: str) -> bool:
    """Whether it waits by a refusal whose answer was lost, and the message is not in the store."""
    found = [at.tickets[holder] for at in books.standing(wanted, holder)]
    return bool(found) and all(waiter.payload is None for waiter in found)
