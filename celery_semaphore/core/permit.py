"""Permit: the right to run, and the outcome of its renewal. Times are the store's clock, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .claim import Claim


@dataclass(frozen=True, slots=True)
class Permit:
    """The right of one holder to run, on all its claims, until its lease ends."""

    holder: str
    # Fencing token: grows with every admission on each of its resources. It is the time, in microseconds, at which the
    # permit was granted or acquired, unless that would not grow.
    token: int
    claims: tuple[Claim, ...]
    acquired_at: float  # when its holder got it; its wait may have been granted before
    expires_at: float
    epoch: int  # of the store when this permit was written


class Renewal(StrEnum):
    """The outcome of the renewal of one permit; one that another call locked has none."""

    OK = "ok"
    RESTORED = "restored"  # the store had forgotten it and took it back
    LOST = "lost"


Renewals = dict[str, Renewal]  # by holder
