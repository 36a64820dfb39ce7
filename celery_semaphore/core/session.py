"""Sessions: how a process that holds waiting tasks, or whose own calls wait, learns of its grants.

The rows of the tables are in docs/architecture.md, chapters 5 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .permit import Kind

if TYPE_CHECKING:
    from .permit import Claim

GRANT_S = 2.0  # seconds that a grant waits for a session to take it up, from when it was made or asked for
NAMED = 500  # waits that a session names in one call
EXPECTED = 8  # waits whose turns it asks for in one call


@dataclass(frozen=True, slots=True)
class HeldWait:
    """A wait whose message, or whose call, this process holds."""

    ticket: str
    claims: tuple[Claim, ...]
    kind: Kind = Kind.REQUEUE
    keeps: float = 0.0  # see Wait


class Standing(StrEnum):
    """What the store says of a wait that a session names."""

    WAITS = "waits"  # in line or granted, and this session learns of its grant
    ELSEWHERE = "elsewhere"  # another message of it was refused since, or lies in the store


@dataclass(frozen=True, slots=True)
class Turns:
    """What a session is told. Waits are known by their nonces."""

    epoch: int
    slept: bool  # it was not awake before: it must name what it holds
    sessions: int  # that are awake, this one included
    granted: frozenset[str]
    expected: dict[
        str, float
    ]  # seconds until the turn of those that were asked for and stand in line
