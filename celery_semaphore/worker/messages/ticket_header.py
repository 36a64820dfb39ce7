"""Read and write the ticket header, the only one that waiting adds to a message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.claim import Claim
from ...core.formats import FORMAT
from ...core.key import is_resource_name, names_of
from ...core.message_id import MessageId
from ...core.ticket import Ticket

TICKET = "semaphore_ticket"  # the only header that waiting adds to a message: see Carried
WaitGrant = tuple[Ticket, Sequence[Claim]]  # the ticket of a granted wait, and where its grant is
MOST_RESOURCES = 8  # in one header: as many limits as a task may have
# The last part of a holder, see ``LimitedRequest``.
_DELIVERY = re.compile(r"[0-9a-z]{1,32}")
_CARRIED = re.compile(r"(?s)([1-9][0-9]{0,2}) ([!-~]{1,64}) (.*)")
_NUMBER = re.compile(r"\.([0-9]{1,9})$")
_REST = re.compile(r"(?s)([0-9]{1,9}) ([!-~]*) (.*)")


@dataclass(frozen=True, slots=True)
class Carried:
    """The header ``TICKET``: ``<format> <message> <refusals> <resources> <ticket>``.

    An example is ``1 9f86d081.2 3 images,tenant/7 255.1795325987266815.id:7b``.

    ``message`` identifies this message among all those of its task. The number after its dot tells the messages of one
    delivery apart; in a newer format each delivery goes on counting. ``refusals`` counts the attempts without a permit.
    ``resources`` are those of its grant, so that a worker which discards the message can give the permits back; the
    word is empty for a message that was sent without one. The ticket names the wait; it is empty for a task that has
    none yet. The first two words mean the same in all
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
    def number(self) -> int:
        """The number after the dot of the message's name; 0 if a later release names it otherwise."""
        found = _NUMBER.search(self.message)
        return int(found[1]) if found else 0

    @property
    def ticket(self) -> Ticket | None:
        """The ticket of the wait, if this release can read it."""
        return None if (rest := self._rest) is None else Ticket.parse(rest[3])

    @property
    def refusals(self) -> int:
        """How often the task was refused in this wait, as far as this release can read it."""
        return 0 if (rest := self._rest) is None else int(rest[1])

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources of its grant; none if it was sent without one."""
        rest = self._rest
        return tuple(rest[2].split(",")) if rest is not None and rest[2] else ()

    @property
    def _rest(self) -> re.Match[str] | None:
        return None if self.is_newer else _REST.fullmatch(self.rest)


def sent_back(
    holder: str,
    attempt: int,
    ticket: Ticket | None,
    refusals: int,
    came: object = None,
    *,
    granted: Sequence[Claim] = (),
) -> str:
    """Return the header of a message that this holder publishes: the message's name, its refusals and its ticket.

    Each attempt is another message, since an unconfirmed one may have arrived. ``came`` is the header that the task
    came with. If only a later release can read it, nothing but the message's name is changed, which then says how often
    that was done. ``granted`` are the claims of the grant that is kept for the message.
    """
    delivery, before = holder.rpartition(":")[2], Carried.read(came)
    if before and before.is_newer:
        return f"{before.format} {delivery}.{before.number + attempt} {before.rest}"
    message = f"{delivery}.{attempt}"
    resources = ",".join(dict.fromkeys(claim.resource for claim in granted))
    return f"{FORMAT} {message} {refusals} {resources} {ticket.text if ticket else ''}"


def is_sent_back(header: object, task_id: str) -> bool:
    """Return whether ``sent_back``, of this or a later release, can have made this header for this task."""
    carried = Carried.read(header)
    if carried is None or carried.is_newer:
        return carried is not None
    rest, resources = _REST.fullmatch(carried.rest), carried.resources
    if (
        rest is None
        or len(resources) > MOST_RESOURCES
        or not all(name and is_resource_name(name) for name in resources)
    ):
        return False
    if not rest[3]:
        return not resources
    ticket = carried.ticket
    first, _, delivery = (ticket.nonce if ticket else "").rpartition(":")
    return first == task_id and bool(_DELIVERY.fullmatch(delivery))


def grant_of(header: object, task_id: str) -> WaitGrant | None:
    """Return the grant that is kept for the message of this header; None without one, or if no worker wrote it."""
    if header is None or not is_sent_back(header, task_id):
        return None
    carried = Carried.read(header)
    if carried is None or carried.ticket is None or not carried.resources:
        return None
    # A release looks at no limit and no weight: it ends the grant as a whole.
    claims = [Claim(*names_of(name), 0, 1, name) for name in carried.resources]
    return carried.ticket, claims


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
