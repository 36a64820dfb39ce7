"""Grant: a parked message, granted or ended, that goes to its broker. Its time is the store's clock, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from .claim import Claim
from .ticket import Ticket


@dataclass(frozen=True, slots=True)
class Grant:
    """A parked message that must be sent: it was granted a permit, or its wait has ended without one."""

    ticket: Ticket
    token: int  # 0 without a permit
    claims: tuple[Claim, ...]  # a long name is cut: stores use the resource's name
    payload: bytes
    expires_at: float  # until then it must be sent, or it will be offered again
