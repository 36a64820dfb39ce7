"""Snapshot: one resource as the store sees it. Times are the store's clock, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from .declared_limit import DeclaredLimit
from .ticket import Ticket
from .wait import Kind


@dataclass(frozen=True, slots=True)
class Held:
    """One permit, or one grant, as a snapshot shows it."""

    holder: str  # of a grant, the nonce of its ticket: its holder is not known yet
    token: int
    weight: int
    acquired_at: float
    expires_at: float
    ticket: Ticket | None = None  # of a grant: the wait to take it up

    @property
    def granted(self) -> bool:
        """Whether this is a grant."""
        return self.ticket is not None


@dataclass(frozen=True, slots=True)
class Waiter:
    """One wait as a snapshot shows it."""

    ticket: Ticket
    kind: Kind
    weight: int
    position: int  # how many stand before it, by priority and place, those that nothing is granted to included
    due: float  # when its task asks by itself
    unsatisfiable: bool
    session: str = ""  # the one that asks for its grants
    reachable: bool = False  # whether a permit can be granted to it now


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One resource as the store saw it at one instant."""

    resource: str
    limit: int | None  # in force, but for a pause; None if none was ever declared
    set_by_operator: bool
    occupied: int
    mean_held: float | None  # seconds for which this resource's permits were held lately
    holders: tuple[Held, ...]  # oldest first
    waiters: tuple[Waiter, ...]  # in order, at most as many as were asked for
    waiting: int  # all of them
    at: float  # the store's time
    # The store's time until which it admits none, for it may have forgotten permits; None outside such a grace.
    grace_until: float | None = None
    # The store's time until which it is paused, or its semaphore is: infinity if that is until it is resumed.
    paused_until: float | None = None
    declared: DeclaredLimit | None = None  # in force if no operator set a limit; None: none was
    kept: int = (
        0  # weight of the room that waits keep here while another of their claims is saturated
    )
