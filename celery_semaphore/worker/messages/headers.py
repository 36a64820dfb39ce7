"""Headers: the headers by which a delivery tells its pool process of its wait."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.formats import FORMAT
from ...core.message_id import MessageId
from ...core.ticket import DEFAULT_PRIORITY, HIGHEST_PRIORITY, Ticket
from ...task.call_options import KEY, WEIGHT
from ...task.protocols import TaskContext
from .header_names import (
    EPOCH,
    HOLDER,
    KEPT_TICKET,
    OF_ONE_WAIT,
    PARKS,
    REFUSALS,
    SESSION,
)
from .ticket_header import TICKET, Carried, message_id_of


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of one delivery."""

    holder: str | None
    epoch: int | None
    session: str
    parks: bool | None
    format: int  # of the ticket header
    number: int  # in the name of the message, see ``Carried``
    ticket: Ticket | None
    refusals: int
    message_id: MessageId
    key: str | None
    weight: int | None
    given_priority: int | None

    @property
    def keeps(self) -> bool:
        """Whether the worker keeps this message if its task is refused: it said which session asks for the grant."""
        return bool(self.session)

    @classmethod
    def taken_from(cls, request: TaskContext, remember: float) -> Headers:
        """Read the headers, and remove those that ``self.retry`` must not pass on to another wait."""
        own = request.__dict__
        extra = request.headers or {}  # the headers that the call gave to an eager task
        came_by = request.delivery_info or {}
        carried = Carried.read(own.get(TICKET))
        message_id = message_id_of(own, came_by.get("redelivered"), remember)
        headers = cls(
            own.get(HOLDER),
            own.get(EPOCH),
            own.get(SESSION, ""),
            own.get(PARKS),
            carried.format if carried else FORMAT,
            carried.number if carried else 0,
            _ticket_in(own.get(KEPT_TICKET), carried),
            own.get(REFUSALS, carried.refusals if carried else 0),
            message_id,
            own.get(KEY, extra.get(KEY)),
            own.get(WEIGHT, extra.get(WEIGHT)),
            came_by.get("priority"),
        )
        for name in OF_ONE_WAIT:
            own.pop(name, None)
        if extra:  # set a copy: an eager task's dictionary is its caller's
            own["headers"] = {name: extra[name] for name in extra if name not in OF_ONE_WAIT}
        return headers

    def priority(self, *, low_is_urgent: bool, default: int) -> int:
        """Return the priority as stores count it: a higher one goes first, whichever way the broker counts.

        The ``default`` is what the app gives to its messages; a wait with it is as urgent as a call.
        """
        more = 0 if self.given_priority is None else max(self.given_priority, 0) - default
        priority = DEFAULT_PRIORITY + (-more if low_is_urgent else more)
        return min(max(priority, 0), HIGHEST_PRIORITY)


def _ticket_in(kept: str | None, carried: Carried | None) -> Ticket | None:
    """Return the ticket that the main process added, else the one that the message carries."""
    if kept:
        return Ticket.parse(kept)
    return carried.ticket if carried else None
