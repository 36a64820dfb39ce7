"""Read and write the ticket header, the only one that waiting adds to a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.formats import FORMAT
from ...core.permit import MessageId
from ...core.ticket import Ticket

TICKET = "semaphore_ticket"  # the only header that waiting adds to a message: see Carried
# The last part of a holder, see ``LimitedRequest``.
_DELIVERY = re.compile(r"[0-9a-z]{1,32}")
_CARRIED = re.compile(r"(?s)([1-9][0-9]{0,2}) ([!-~]{1,64}) (.*)")
_REST = re.compile(r"(?s)([0-9]{1,9}) (.*)")


@dataclass(frozen=True, slots=True)
class Carried:
    """The header ``TICKET``: ``<format> <message> <refusals> <ticket>``.

    An example is ``1 9f86d081.2 3 255.1795325987266815.id:7b``.

    ``message`` identifies this message among all those of its task. ``refusals`` counts the attempts without a permit.
    The ticket names the wait; it is empty for a task that has none yet. The first two words mean the same in all
    formats. The text after the second blank depends on the format: a release that cannot read it passes it on as it
    came.
    """

    format: int
    message: str
    rest: str

    @classmethod
    def read(cls, header: object) -> Carried | None:
        """Parse a header; return None for one that no worker of any release wrote."""
        found = _CARRIED.fullmatch(header) if isinstance(header, str) else None
        return cls(int(found[1]), found[2], found[3]) if found else None

    @property
    def is_newer(self) -> bool:
        """Return whether only a later release can read the rest."""
        return self.format > FORMAT

    @property
    def ticket(self) -> Ticket | None:
        """The ticket of the wait, if this release can read it."""
        return None if (rest := self._rest) is None else Ticket.parse(rest[2])

    @property
    def refusals(self) -> int:
        """How often the task was refused in this wait, as far as this release can read it."""
        return 0 if (rest := self._rest) is None else int(rest[1])

    @property
    def _rest(self) -> re.Match[str] | None:
        return None if self.is_newer else _REST.fullmatch(self.rest)


def sent_back(
    holder: str, attempt: int, ticket: Ticket | None, refusals: int, came: object = None
) -> str:
    """Return the header of a message that this holder publishes: the message's name, its refusals and its ticket.

    Each attempt is another message, since an unconfirmed one may have arrived. ``came`` is the header that the task
    came with. If only a later release can read it, nothing but the message's name is changed.
    """
    message, before = f"{holder.rpartition(':')[2]}.{attempt}", Carried.read(came)
    if before and before.is_newer:
        return f"{before.format} {message} {before.rest}"
    return f"{FORMAT} {message} {refusals} {ticket.text if ticket else ''}"


def is_sent_back(header: object, task_id: str) -> bool:
    """Return whether ``sent_back``, of this or a later release, can have made this header for this task."""
    carried = Carried.read(header)
    if carried is None or carried.is_newer:
        return carried is not None
    rest = _REST.fullmatch(carried.rest)
    if rest is None or not rest[2]:
        return rest is not None
    ticket = carried.ticket
    first, _, delivery = (ticket.nonce if ticket else "").rpartition(":")
    return first == task_id and bool(_DELIVERY.fullmatch(delivery))


def message_id_of(sent: Mapping[str, Any], redelivered: object, remember: float) -> MessageId:
    """Return the id of this message among all those of its task, by the headers that it was sent with.

    A retry is another wait, and so is the task by which ``self.replace`` replaces this one: both keep the task's id.
    """
    carried = Carried.read(sent.get(TICKET))
    message = carried.message if carried else ""
    retries, replaced = sent.get("retries") or 0, sent.get("replaced_task_nesting") or 0
    return MessageId(f"{sent['id']}:{retries}:{replaced}", message, bool(redelivered), remember)


def refusals_of(sent: Mapping[str, Any]) -> int:
    """Return how often the task was refused before this message of it was sent."""
    carried = Carried.read(sent.get(TICKET))
    return carried.refusals if carried else 0
