"""Note which message of a task was admitted: its copies must not run, nor does it run beside itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.refusal import Reason
from ..encoding import microseconds
from .known_messages import KnownMessages

if TYPE_CHECKING:
    from ...core.message_id import MessageId
    from ...core.ticket import Ticket
    from .state import StoreState


class Messages:
    """The messages of one call's task. ``carried`` is the ticket that the call's message brought."""

    def __init__(
        self,
        state: StoreState,
        resource: str,
        mine: MessageId | None,
        carried: Ticket | None = None,
    ) -> None:
        self._state, self._mine, self._carried = state, mine, carried
        self._name = (resource, mine.task if mine else "")
        known = state.messages.get(self._name, state.now) if mine and not mine.is_first else None
        told = known.ticket if known else None
        self._earlier = bool(told and carried and told.nonce != carried.nonce)
        self._known = None if self._earlier else known or self._unknown_run(carried)
        self.ticket = carried if self._earlier else _newer(carried, told)

    @property
    def begins_anew(self) -> bool:
        """A15: return whether a message was admitted and its run died, so that the wait of all messages is over.

        Do so for the admitted one, delivered again, and for any other that brings no ticket of a later wait.
        """
        known, mine = self._known, self._mine
        if not known or not mine or known.admitted is None or self.refusal():
            return False
        return self._is_again or (known.admitted != mine.number and not self._brings_later_wait)

    def refusal(self) -> Reason | None:
        """Return why the run of this message, or of another one of its task, keeps this one from running."""
        known, mine = self._known, self._mine
        if not known or not mine or known.admitted is None:
            return None
        if known.admitted == mine.number and not self._is_again:
            return None  # the answer of its acquire was lost
        if known.ran:  # A8
            return Reason.COPY
        # A9. If that run was released without having ended, or died, this one may run.
        return Reason.RUNNING if self._lives() else None

    def runs_until(self) -> int:
        """Return when the lease of the run that keeps this message from running ends."""
        holder = self._known.holder if self._known else ""
        return self._state.at(self._name[0]).holders[holder].ends

    def admitted(self, holder: str) -> None:
        if self._mine and self._mine.is_first:
            self._state.messages.delete(self._name)
        elif self._mine:
            self._remember(KnownMessages(self.ticket, self._until(), self._mine.number, holder))

    def refused(self, ticket: Ticket | None) -> None:
        """Note that this message goes back.

        An earlier message that was admitted did not end the task: this one would not exist.
        """
        if self._mine and not self._lives():
            self._remember(KnownMessages(ticket, self._until()))

    def note_run(self) -> None:
        """A9: note the run of this very message, so that the release of its permit tells that it ended (R5)."""
        if self._known and self._is_again:
            self._remember(replace(self._known, until=self._until()))

    @property
    def _is_again(self) -> bool:
        """Return whether the broker delivered the message that was admitted once more."""
        known, mine = self._known, self._mine
        return bool(known and mine and mine.redelivered and known.admitted == mine.number)

    @property
    def _brings_later_wait(self) -> bool:
        """Return whether the ticket is of a wait that began after that of the admitted message.

        A header cannot be changed: it has the ticket also when its wait is over.
        """
        told = self._known.ticket if self._known else None
        return bool(self._carried and told and self._carried.place > told.place)

    def _unknown_run(self, carried: Ticket | None) -> KnownMessages | None:
        """Return a record for a message that comes again while it runs; the first one of a task leaves none."""
        mine = self._mine
        if mine and mine.redelivered:
            for holder in sorted(self._state.at(self._name[0]).holders):
                if holder.rpartition(":")[:2] == (mine.task_id, ":"):
                    return KnownMessages(carried, self._until(), mine.number, holder)
        return None

    def _lives(self) -> bool:
        holders = self._state.at(self._name[0]).holders
        return self._known is not None and self._known.holder in holders

    def _until(self) -> int:
        return self._state.now + microseconds(self._mine.remember_for if self._mine else 0)

    def _remember(self, task: KnownMessages) -> None:
        if not self._earlier:
            self._state.messages.put(self._name, task)


def note_end(state: StoreState, resource: str, mine: MessageId | None, holder: str) -> None:
    """R5: note that the task of this message ran, so that it and all others of the task are copies.

    The first message of a task has a record only if it was delivered again while it ran.
    """
    if mine:
        name = resource, mine.task
        known = state.messages.get(name, state.now)
        if known and (known.admitted, known.holder) == (mine.number, holder):
            until = state.now + microseconds(mine.remember_for)
            state.messages.put(name, replace(known, until=until, ran=True))


def _newer(carried: Ticket | None, told: Ticket | None) -> Ticket | None:
    """Return the ticket of the wait that began later: a message keeps the header of one that has ended (A15)."""
    found = [ticket for ticket in (carried, told) if ticket]
    return max(found, key=lambda ticket: ticket.place, default=None)
