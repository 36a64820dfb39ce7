"""Destination: decide where the message of a task without a permit goes.

The table is in docs/maintain/architecture.md, chapter 2. The question is asked once for each attempt, when it is
refused. What store and broker allow is known before the acquire, since the store must know it: whether the store takes
the message (``PARKS``, which settles ``on_saturated``), and the session that would ask for its grant (``SESSION``).

How it fails: between the answer and the deed the connection is lost, the store is full, or another server answers.
Then the message is not kept (``CannotKeep``) or not parked (``CannotPark``), and in both cases it is published.
"""

from __future__ import annotations

from enum import StrEnum

from ...core.refusal import Reason
from ...core.wait_policy import OnSaturated


class Destination(StrEnum):
    """Where the message of a task without a permit goes."""

    PARKED = "parked"  # into the store
    IN_LINE = "in_line"  # kept by its worker, until its session is granted a permit for it
    KEPT = "kept"  # by its worker, which asks again after the delay: its task stands in no line
    PUBLISHED = "published"  # into its queue, to come back after the delay
    DROPPED = "dropped"  # its task ends as revoked, or is a copy
    FAILED = "failed"  # its task ends with an error


class Unasked(StrEnum):
    """Why an attempt got no permit, although no store has refused it: see ``Reason`` for those."""

    UNREACHABLE = "unreachable"
    NEWER_FORMAT = "newer_format"  # of the store or of the message


Why = Reason | Unasked

# Whatever the policy says:
ALWAYS: dict[Why, Destination] = {
    Unasked.NEWER_FORMAT: Destination.PUBLISHED,  # P2
    Reason.COPY: Destination.DROPPED,
    Reason.TIMED_OUT: Destination.FAILED,
}
ENDS: dict[OnSaturated, Destination] = {
    OnSaturated.DROP: Destination.DROPPED,
    OnSaturated.FAIL: Destination.FAILED,
}
# A task waits for these under any policy: they say nothing of the limit.
PASSES = (Reason.RECOVERING, Reason.RUNNING, Unasked.UNREACHABLE)


def destination(
    why: Why, on_saturated: OnSaturated, *, has_ticket: bool, keeps: bool
) -> Destination:
    """Return where the message goes.

    ``on_saturated`` is settled: "wait" has become "park" or "requeue". ``has_ticket`` is whether the store gave the
    wait a place in its line, and ``keeps`` whether the worker keeps the message if it must wait.
    """
    if why in ALWAYS:
        return ALWAYS[why]
    if why not in PASSES and on_saturated in ENDS:
        return ENDS[on_saturated]
    if why not in PASSES and on_saturated is OnSaturated.PARK and has_ticket:
        return Destination.PARKED
    if not keeps:
        return Destination.PUBLISHED  # P1
    in_line = has_ticket and on_saturated is OnSaturated.REQUEUE
    return Destination.IN_LINE if in_line else Destination.KEPT
