"""Note which message of a task was admitted: its copies must not run, its own redelivery may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...core.permit import Reason
from ..encoding import microseconds

if TYPE_CHECKING:
    from ...core.permit import MessageId
    from ...core.ticket import Ticket
    from .state import MemoryState


@dataclass(frozen=True)
class Remembered:
    """The messages of a task that waits or waited: its ticket, and which message was admitted for which holder."""

    ticket: Ticket | None  # for a message delivered again, without the library's header
    until: int
    admitted: str | None = None
    holder: str = ""
    ran: bool = False


class Messages:
    """The messages of one call's task. ``carried`` is the ticket that the call's message brought."""

    def __init__(
        self,
        state: MemoryState,
        resource: str,
        mine: MessageId | None,
        carried: Ticket | None = None,
    ) -> None:
        self._state, self._mine = state, mine
        self._name = (resource, mine.task if mine else "")
        known = state.remembered(self._name) if mine and not mine.is_first else None
        known_by = known.ticket if known else None
        self._earlier = bool(known_by and carried and known_by.nonce != carried.nonce)
        self._known = None if self._earlier else known
        self.ticket = carried or (self._known.ticket if self._known else None)

    def refusal(self) -> Reason | None:
        """Return why another message of the task keeps this one from running, if it does."""
        known, mine = self._known, self._mine
        if not mine or not known or known.admitted in (None, mine.number):
            return None
        if known.ran:  # A8
            return Reason.COPY
        # A9. If the other was released without having run, or died, this one may run.
        return Reason.RUNNING if self._lives() else None

    def admitted(self, holder: str) -> None:
        if self._mine and self._mine.is_first:
            self._state.messages.pop(self._name, None)
        elif self._mine:
            self._remember(Remembered(self.ticket, self._until(), self._mine.number, holder))

    def refused(self, ticket: Ticket | None) -> None:
        """Note that this message goes back.

        An earlier message that was admitted did not end the task: this one would not exist.
        """
        if self._mine and not self._lives():
            self._remember(Remembered(ticket, self._until()))

    def ran(self, holder: str) -> None:
        """R5: note that the task ran, so that its other messages are copies."""
        known = self._known
        if known and self._mine and (known.admitted, known.holder) == (self._mine.number, holder):
            self._remember(replace(known, until=self._until(), ran=True))

    def _lives(self) -> bool:
        holders = self._state.at(self._name[0]).holders
        return self._known is not None and self._known.holder in holders

    def _until(self) -> int:
        return self._state.now + microseconds(self._mine.remember_for if self._mine else 0)

    def _remember(self, task: Remembered) -> None:
        if not self._earlier:
            self._state.messages.pop(self._name, None)  # newest last: see MemoryState.remembered
            self._state.messages[self._name] = task
