"""Which message of a task was admitted: its copies must not run, its own redelivery may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..asking import microseconds

if TYPE_CHECKING:
    from ...core.permit import Publication
    from .books import Books


@dataclass(frozen=True)
class Remembered:
    """Of a task that waits or waited: its ticket, and which of its messages was admitted, for whom."""

    ticket: str
    admitted: str | None
    holder: str
    until: int


class Messages:
    """The messages of one call's task. ``carried`` is the ticket that came with this one."""

    def __init__(
        self, books: Books, resource: str, mine: Publication | None, carried: str | None
    ) -> None:
        self._books, self._mine = books, mine
        self._name = (resource, mine.of if mine else "")
        # As its sender published it, and for the first time: he may use a task id again, so what is
        # remembered under it is of an earlier task.
        self._first = not mine or not (mine.id or mine.redelivered)
        known = None if self._first else books.remembered(self._name)
        self._earlier = bool(known and known.ticket and carried and known.ticket != carried)
        self._known = None if self._earlier else known
        self.ticket = carried or (self._known.ticket if self._known else "")

    def is_copy(self) -> bool:
        """Whether another message was admitted, and ran: it was not the holder that sent this one."""
        known, mine = self._known, self._mine
        if not mine or not known or known.admitted is None:
            return False
        return known.admitted != mine.id and known.holder != mine.by

    def admitted(self, holder: str) -> None:
        if self._first:
            self._books.messages.pop(self._name, None)
        elif self._mine:
            self._remember(self.ticket, self._mine.id, holder)

    def refused(self, ticket: str) -> None:
        """It goes back, so that no message is the admitted one any more."""
        self._remember(ticket, None, "")

    def _remember(self, ticket: str, admitted: str | None, holder: str) -> None:
        if self._mine and not self._earlier:
            until = self._books.now + microseconds(self._mine.remember)
            self._books.messages.pop(self._name, None)  # the newest last: see Books.remembered
            self._books.messages[self._name] = Remembered(ticket, admitted, holder, until)
