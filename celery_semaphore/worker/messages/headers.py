"""Headers: what a delivery brings to its gate, besides the task's own arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.formats import FORMAT
from ...core.permit import MessageId
from ...core.ticket import nonce_of

TICKET = "semaphore_ticket"  # the only one that a message carries because it waits: see Carried
PLACE = "semaphore_place"  # the ticket of one that was held, from the main process to the one that runs the task
HOLDER = "semaphore_holder"  # from the main process to the one that runs the task
EPOCH = "semaphore_epoch"  # likewise
SESSION = "semaphore_session"  # likewise: which session asks for its grant if it must wait
EXITS_EARLY = "semaphore_exits_early"  # of a request whose tracer lets a refusal out
FANOUT = "semaphore_fanout"  # likewise: it came by a fanout exchange, and could not go back
PERMIT = "semaphore_permit"  # of the running request
PENDING_RELEASE = (
    "semaphore_pending_release"  # what to release at its end, from before the store is asked
)
# Never from a message.
INTERNAL = (PLACE, HOLDER, EPOCH, SESSION, EXITS_EARLY, FANOUT, PERMIT, PENDING_RELEASE)
OF_ONE_WAIT = (PLACE, HOLDER, EPOCH, SESSION, TICKET)  # no retry inherits them
KEY = "semaphore_key"  # of a call, given to apply_async
WEIGHT = "semaphore_weight"  # likewise

URGENT = 9  # Redis' most urgent priority is 0, its least urgent 9


# A holder's last part, see ``LimitedRequest``.
_DELIVERY = re.compile(r"[0-9a-z]{1,32}")
_CARRIED = re.compile(r"(?s)([1-9][0-9]{0,2}) ([!-~]{1,64}) (.*)")


@dataclass(frozen=True, slots=True)
class Carried:
    """What ``TICKET`` says of a message: ``<format> <message> <ticket>``, as in ``1 9f86d081.2 255.1795325987266815.id:7b``.

    ``message`` names this very publication, of all that its task may have. The ticket is the place of the wait; it is
    empty where a task waits that has none yet. The first two words mean the same in all formats. What follows the
    second blank is the format's own: a release that cannot read it passes it on as it came.
    """

    format: int
    message: str
    rest: str

    @classmethod
    def read(cls, header: object) -> Carried | None:
        """Return what a header says; None for one that no worker of any release wrote."""
        found = _CARRIED.fullmatch(header) if isinstance(header, str) else None
        return cls(int(found[1]), found[2], found[3]) if found else None

    @property
    def is_newer(self) -> bool:
        """Tell whether only a later release can read the rest."""
        return self.format > FORMAT

    @property
    def ticket(self) -> str | None:
        """Return the place of the wait, where this release can read it."""
        return None if self.is_newer else self.rest or None


def sent_back(holder: str, attempt: int, ticket: str | None, came: object = None) -> str:
    """Return the header of a message that this holder publishes: which message it is, and the place of its wait.

    Each attempt is another message: one that was not confirmed may have arrived nevertheless. ``came`` is the header
    that the task came with: of one that only a later release can read, nothing but the message's own name changes.
    """
    message, before = f"{holder.rpartition(':')[2]}.{attempt}", Carried.read(came)
    if before and before.is_newer:
        return f"{before.format} {message} {before.rest}"
    return f"{FORMAT} {message} {ticket or ''}"


def is_sent_back(header: object, task_id: str) -> bool:
    """Tell whether ``sent_back`` can have made this header of this very task, here or in a later release."""
    carried = Carried.read(header)
    if carried is None or carried.ticket is None:
        return carried is not None
    first, _, delivery = nonce_of(carried.ticket).rpartition(":")
    return first == task_id and bool(_DELIVERY.fullmatch(delivery))


def message_id_of(sent: Mapping[str, Any], redelivered: Any, remember: float) -> MessageId:
    """Say which message this is, of all that its task may have, by the headers that it was sent with.

    A retry is another wait, and so is the task by which ``self.replace`` replaces this one: both keep its id.
    """
    carried = Carried.read(sent.get(TICKET))
    message = carried.message if carried else ""
    retries, replaced = sent.get("retries") or 0, sent.get("replaced_task_nesting") or 0
    return MessageId(f"{sent['id']}:{retries}:{replaced}", message, bool(redelivered), remember)


def drop_internal(sent: dict[str, Any]) -> None:
    """Remove what only this library may say of a running task, whatever the message's sender said."""
    for name in INTERNAL:
        sent.pop(name, None)


@dataclass(frozen=True, slots=True)
class Headers:
    """One delivery's headers."""

    holder: str | None
    epoch: int | None
    session: str
    format: int  # of what the message says of its wait
    ticket: str | None
    message_id: MessageId
    key: str | None
    weight: int | None
    given_priority: int | None

    @classmethod
    def taken_from(cls, request: Any, remember: float) -> Headers:
        """Read them, and take away what ``self.retry`` must not send along to another wait."""
        own = request.__dict__
        extra = request.headers or {}  # where an eager task finds what its call gave it
        came_by = request.delivery_info or {}
        carried = Carried.read(own.get(TICKET))
        message_id = message_id_of(own, came_by.get("redelivered"), remember)
        headers = cls(
            own.get(HOLDER),
            own.get(EPOCH),
            own.get(SESSION, ""),
            carried.format if carried else FORMAT,
            own.get(PLACE) or (carried.ticket if carried else None),
            message_id,
            own.get(KEY, extra.get(KEY)),
            own.get(WEIGHT, extra.get(WEIGHT)),
            came_by.get("priority"),
        )
        for name in OF_ONE_WAIT:
            own.pop(name, None)
        if extra:  # a copy, for the dictionary of an eager task is its caller's; EXITS_EARLY of the request itself remains
            dropped = {*OF_ONE_WAIT, EXITS_EARLY}
            own["headers"] = {name: extra[name] for name in extra if name not in dropped}
        return headers

    def priority(self, *, low_is_urgent: bool) -> int:
        """Higher goes first, whichever way the broker counts."""
        given = self.given_priority or 0
        priority = URGENT - given if low_is_urgent else given
        return min(max(priority, 0), 255)
