"""Headers: what a delivery brings to its gate, besides the task's own arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.permit import Publication
from ..stores.asking import maker_of, ticket_parts

TICKET = "semaphore_ticket"  # the only one that a message carries because it waits: see sent_back
HOLDER = "semaphore_holder"  # from the main process to the one that runs the task
EPOCH = "semaphore_epoch"  # likewise
LEAVES = "semaphore_leaves"  # of a request whose tracer lets a refusal out
FANOUT = "semaphore_fanout"  # likewise: it came by a fanout exchange, and could not go back
PERMIT = "semaphore_permit"  # of the running request
ASKING = "semaphore_asking"  # what to release at its end, from before the store is asked
INTERNAL = (HOLDER, EPOCH, LEAVES, FANOUT, PERMIT, ASKING)  # never from a message
KEY = "semaphore_key"  # of a call, given to apply_async
WEIGHT = "semaphore_weight"  # likewise

URGENT = 9  # Redis' most urgent priority is 0, its least urgent 9


def sent_back(holder: str, attempt: int, ticket: str | None) -> str:
    """What ``TICKET`` says of a message that this holder publishes: which it is, and its place.

    Each attempt is another: one that was not confirmed may have arrived nevertheless.
    """
    return f"{holder.rpartition(':')[2]}.{attempt} {ticket or ''}"


# A message that some worker of ours published, and a holder's last part: see ``sent_back`` and ``LimitedRequest``.
_MESSAGE = re.compile(r"[!-~]{1,64}")
_DELIVERY = re.compile(r"[0-9a-z]{1,32}")


def is_sent_back(header: object, task_id: str) -> bool:
    """Tell whether ``sent_back`` can have made this header of this very task."""
    if not isinstance(header, str):
        return False
    message, _, ticket = header.partition(" ")
    if not _MESSAGE.fullmatch(message) or not ticket:
        return bool(_MESSAGE.fullmatch(message))
    maker, _, delivery = maker_of(ticket).rpartition(":")
    return maker == task_id and bool(_DELIVERY.fullmatch(delivery) and ticket_parts(ticket))


def publication_of(sent: Mapping[str, Any], redelivered: Any, remember: float) -> Publication:
    """Say which message this is, of all that its task may have, by the headers that it was sent with.

    A retry is another wait, and so is the task by which ``self.replace`` replaces this one: both keep its id.
    """
    message, _, _ = str(sent.get(TICKET) or "").partition(" ")
    retries, replaced = sent.get("retries") or 0, sent.get("replaced_task_nesting") or 0
    return Publication(f"{sent['id']}:{retries}:{replaced}", message, bool(redelivered), remember)


def drop_internal(sent: dict[str, Any]) -> None:
    """Remove what only this library may say of a running task, whatever the message's sender said."""
    for name in INTERNAL:
        sent.pop(name, None)


@dataclass(frozen=True, slots=True)
class Headers:
    """One delivery's headers."""

    holder: str | None
    epoch: int | None
    ticket: str | None
    publication: Publication
    key: str | None
    weight: int | None
    given_priority: int | None

    @classmethod
    def taken_from(cls, request: Any, remember: float) -> Headers:
        """Read them, and take away what ``self.retry`` must not send along to another wait."""
        own = request.__dict__
        extra = request.headers or {}  # where an eager task finds what its call gave it
        came_by = request.delivery_info or {}
        _, _, ticket = str(own.get(TICKET) or "").partition(" ")
        publication = publication_of(own, came_by.get("redelivered"), remember)
        headers = cls(
            own.get(HOLDER),
            own.get(EPOCH),
            ticket or None,
            publication,
            own.get(KEY, extra.get(KEY)),
            own.get(WEIGHT, extra.get(WEIGHT)),
            came_by.get("priority"),
        )
        for name in (HOLDER, EPOCH, TICKET):
            own.pop(name, None)
            extra.pop(name, None)
        extra.pop(LEAVES, None)  # the request's own remains, to leave by
        return headers

    def priority(self, *, low_is_urgent: bool) -> int:
        """Higher goes first, whichever way the broker counts."""
        given = self.given_priority or 0
        priority = URGENT - given if low_is_urgent else given
        return min(max(priority, 0), 255)
