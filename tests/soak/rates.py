"""Rates of the limited tasks beside those of the plain ones in the same workers, queues and minutes.

The rule: given all that were lost (or repeated) among the exposed tasks of both groups, the limited ones must
not have so many that chance alone would give them as many or more in fewer than one of ``ONCE_IN`` runs.
With 500 exposed tasks in each group and none among the plain ones, ten among the limited ones are too many.
What needs no figures, because plain Celery never does it, stands in `judge.py`: one is too many there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from .judge import Findings

ONCE_IN = 1000


@dataclass(frozen=True)
class Rate:
    """So many of those that were exposed."""

    count: int
    exposed: int

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.count + other.count, self.exposed + other.exposed)

    def __str__(self) -> str:
        return f"{self.count} of {self.exposed}"


def lost(found: Findings) -> Rate:
    lost = len(found.lost) - len(found.popped)
    return Rate(lost, max(found.exposed + found.exposed_to_broker, lost))


def repeated(found: Findings) -> Rate:
    return Rate(len(found.repeated), max(found.exposed, len(found.repeated)))


def repeated_by_broker(found: Findings) -> Rate:
    return Rate(len(found.repeated_by_broker), found.exposed_to_broker)


def chance_of(ours: Rate, plain: Rate) -> float:
    """Return how likely ours has so many or more, if both have the same rate (Fisher's exact test)."""
    count, all_exposed = ours.count + plain.count, ours.exposed + plain.exposed
    ways = comb(all_exposed, count)
    most = min(count, ours.exposed)
    more = (
        comb(ours.exposed, k) * comb(plain.exposed, count - k) for k in range(ours.count, most + 1)
    )
    return sum(more) / ways


def exceeds(ours: Rate, plain: Rate) -> bool:
    """Tell whether ours is worse than plain Celery by more than chance."""
    return chance_of(ours, plain) < 1 / ONCE_IN
