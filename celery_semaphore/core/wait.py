"""Wait: how a caller waits if it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ticket import Ticket


SHORTEST_DELAY_S = 0.1  # of a refused task that comes back by itself
LONGEST_DELAY_S = 300.0


class Kind(StrEnum):
    """How a waiter waits, and so how it comes back."""

    REQUEUE = "requeue"  # a worker keeps its message and asks for its grant, or the broker has it
    PARK = "park"  # its message is in the store until it is granted a permit
    BLOCK = "block"  # a call blocks; its process asks for its grant


@dataclass(frozen=True, slots=True)
class Wait:
    """How a caller would wait if it were refused. Durations are in seconds."""

    kind: Kind
    ticket: Ticket | None = None  # from an earlier refusal of the same wait: keeps its place
    priority: int = 0  # higher goes first; see ticket.py:DEFAULT_PRIORITY
    shortest: float = SHORTEST_DELAY_S  # bounds of the delay
    longest: float = LONGEST_DELAY_S
    jitter: float = 1.0  # the caller's random factor on the delay
    timeout: float | None = None  # of the whole wait, since the ticket was made
    session: str = ""  # asks for the grants of this wait, see core.session; empty: none does
    keeps: float = 0.0  # how long its place is kept in transit; at least a lease
