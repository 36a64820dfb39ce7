"""The values by which a process with waiting tasks or calls learns of its grants.

The rows of the tables are in docs/maintain/architecture.md, chapters 5 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .wait import Kind

if TYPE_CHECKING:
    from .claim import Claim
    from .ticket import Ticket

GRANT_S = 2.0  # how long a grant lasts until it is taken up, since it was made or last prolonged
NAMED = 500  # waits that a session names in one call
EXPECTED = 8  # waits in one call for which it asks when their turns are expected


@dataclass(frozen=True, slots=True)
class HeldWait:
    """The wait of a message that this process keeps, or of a call that blocks in it."""

    ticket: Ticket
    claims: tuple[Claim, ...]
    kind: Kind = Kind.REQUEUE
    keeps: float = 0.0  # see Wait


class Standing(StrEnum):
    """The store's answer about a wait that a session names."""

    WAITS = "waits"  # in line or granted, and this session learns of its grant
    ELSEWHERE = "elsewhere"  # another message of it was refused since, or lies in the store


@dataclass(frozen=True, slots=True)
class SessionReply:
    """The store's answer to a question of a session. Waits are identified by their nonces."""

    epoch: int
    slept: bool  # the session was not awake before: it must name all its waits
    sessions: int  # the number of awake sessions, this one included
    granted: frozenset[str]
    # Seconds until the turns of the waits that were asked about and are in line.
    expected: dict[str, float]
