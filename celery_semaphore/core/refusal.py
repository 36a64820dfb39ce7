"""Refusal: why a call was not admitted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .claim import Claim
from .permit import Permit
from .ticket import Ticket


class Reason(StrEnum):
    """The reason of a refusal."""

    SATURATED = "saturated"
    PAUSED = "paused"  # by an operator; or the limit in force is 0
    UNSATISFIABLE = "unsatisfiable"  # the weight is above the limit in force
    RECOVERING = "recovering"  # the grace of a new epoch, in which living holders restore permits
    RELEASED = "released"  # the holder released its permit, or was declared dead; refused for good
    RUNNING = "running"  # this task has a permit by another delivery: it may run, or have died
    COPY = "copy"  # this task ran by another delivery; this one must not run
    TIMED_OUT = "timed_out"  # the whole wait took longer than its timeout; the ticket is gone


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to an acquire that was not admitted: why, how many wait before it, and when to ask again."""

    claim: Claim  # the one that refused: the first, or of several that are saturated the slowest
    reason: Reason
    limit: int  # in force at that claim's resource; 0 if the claim itself declares 0
    occupied: int  # weight of the permits and grants there
    ticket: (
        Ticket | None
    )  # None if the caller does not stand in line: for its reason, or since the line is full
    position: int  # waiters ahead
    retry_after: (
        float  # seconds; within the caller's bounds, but for a grace and the end of its timeout
    )
    waited: float  # seconds since the ticket was made
    # Of a weight above the limit in force: the process that declared that limit; empty if an operator set it.
    declared_by: str = ""
    kept: int = 0  # weight of the room there that waits before this one keep


Answer = Permit | Refusal
