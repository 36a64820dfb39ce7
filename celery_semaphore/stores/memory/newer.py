"""What is still done in a store of a newer format, for the permits that this release wrote into it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.permit import Permit, Publication, Renewal
from ..encoding import Ask, asks
from .messages import Messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .state import Books


def renewed_in_newer(books: Books, permit: Permit) -> Renewal:
    """Move the end of its lease, and write nothing else.

    What was forgotten is not put back, nor confirmed in a new epoch: that would be a new record in an old format,
    and whether it fits only newer processes can tell.
    """
    wanted = asks(permit.claims)
    if not all(_is_there(books, permit.holder, ask) for ask in wanted):
        return Renewal.LOST
    for ask in wanted:
        holders = books.at(ask.resource).holders
        holders[permit.holder] = replace(holders[permit.holder], ends=books.now + books.lease)
    return Renewal.OK


def _is_there(books: Books, holder: str, ask: Ask) -> bool:
    entry = books.at(ask.resource).holders.get(holder)
    if entry is None or entry.ends <= books.now:
        return False
    return (entry.weight, entry.epoch) == (ask.weight, books.epoch.id)


def release_in_newer(
    books: Books, holder: str, wanted: Sequence[Ask], publication: Publication | None
) -> None:
    """Take the permit out; waiters may be written otherwise by now, so a newer process hands on."""
    for ask in wanted:
        at = books.at(ask.resource)
        if at.holders.pop(holder, None):
            at.bury(holder, books.now + books.lease)
    Messages(books, wanted[0].resource, publication).ran(holder)
