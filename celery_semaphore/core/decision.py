"""Decision: what operators decided for one name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that operators began, by the store's clock."""

    lasted: float  # seconds since it began
    left: float | None  # seconds until it ends; None: it lasts until it is resumed


@dataclass(frozen=True, slots=True)
class Decision:
    """What operators decided for one name: of a resource, or of a whole semaphore."""

    limit: int | None = None
    limited_for: float | None = None  # seconds since that limit was set
    pause: Pause | None = None
