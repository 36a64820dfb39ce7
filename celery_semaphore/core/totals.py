"""Totals: the counts of one resource."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of one resource as the store saw it at one instant: no holder, no ticket."""

    resource: str
    limit: int | None  # in force, but for a pause; None if none was ever declared
    set_by_operator: bool
    held: int  # weight of the permits
    granted: int  # weight of the grants
    parked: int  # waits with a message in the store, without a grant
    reachable: int  # waits without a message, of a session that is awake as far as was last checked
    in_transit: int  # waits that nothing can be granted to now
    set_aside: int  # of the parked and the reachable: those with a weight above the limit in force
    oldest_wait: float | None  # seconds since the oldest of these waits began
    outbox: int  # messages that must be sent
    outbox_oldest: (
        float | None
    )  # seconds since the oldest grant of these messages; None if all have ended
    paused: bool = False  # it, or its semaphore
    kept: int = 0  # see Snapshot.kept
    mean_held: float | None = None  # seconds for which this resource's permits were held lately

    @property
    def occupied(self) -> int:
        """The weight of the permits and the grants."""
        return self.held + self.granted

    @property
    def waiting(self) -> int:
        """The number of all waits."""
        return self.parked + self.reachable + self.in_transit
