"""Name the headers by which the processes of a worker tell each other of one delivery."""

from __future__ import annotations

from typing import Any

from ...core.ticket import Ticket
from ...task.protocols import Fields
from ...task.request_permit import PERMIT
from .ticket_header import TICKET

# The main process adds these to the request that a pool process gets, which adds those from PERMIT on:
KEPT_TICKET = "semaphore_kept_ticket"  # the ticket of a message that was kept
HOLDER = "semaphore_holder"
EPOCH = "semaphore_epoch"
SESSION = "semaphore_session"  # the session that asks for the grant of the task if it must wait
PARKS = "semaphore_parks"  # whether the task is parked if it must wait, as the main process decided
REFUSALS = "semaphore_refusals"  # how often the task of a message that was kept was refused
FANOUT = "semaphore_fanout"  # the fanout exchange that the message came from: it could not go back
PENDING_RELEASE = "semaphore_pending_release"  # the release due at its end, set before the acquire
OUTCOME = "semaphore_outcome"  # of the acquire, for before_start: see gate.py
INTERNAL = (
    *(KEPT_TICKET, HOLDER, EPOCH, SESSION, PARKS, REFUSALS, FANOUT),
    *(PERMIT, PENDING_RELEASE, OUTCOME),
)
# A retry must not inherit these:
OF_ONE_WAIT = (KEPT_TICKET, HOLDER, EPOCH, SESSION, PARKS, REFUSALS, TICKET)


def remove_internal(sent: Fields) -> None:
    """Remove the headers that only this library may set, in case the message's sender set them."""
    for name in INTERNAL:
        sent.pop(name, None)


def put_wait(sent: dict[str, Any], ticket: Ticket | None, refusals: int) -> None:
    """Add the wait of a message that was kept, for the next pool process that gets its task."""
    sent[REFUSALS] = refusals
    if ticket is not None:
        sent[KEPT_TICKET] = ticket.text
