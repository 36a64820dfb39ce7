"""SaturationWatch: say once a minute where tasks still wait: why, how many, and for how long."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ...core.claim import Claim
from ...core.store import Store
from ...core.totals import Totals

logger = logging.getLogger(__name__)

EACH_S = 60.0  # between two lines about one semaphore
KEYS = 100  # of a semaphore that are counted; one call of a store counts more
SEMAPHORES = 1000  # names that are noted: a sender may invent them
SATURATED = "stays saturated"
PAUSED = "is paused"
TOO_HEAVY = "has only tasks that are too heavy for its limit"


@dataclass(slots=True)
class _Saturated:
    """A semaphore that refused tasks of this worker."""

    told_at: float
    resources: set[str] = field(default_factory=set)


class SaturationWatch:
    """Remembers where tasks of this worker were refused, until no task waits there.

    The event loop adds to it; the sweeper's thread asks the store.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[str, _Saturated] = {}

    def refused(self, semaphore: str, claims: Sequence[Claim]) -> None:
        """Note the keys of these claims at which a task was refused, and waits now."""
        resources = {claim.resource for claim in claims if claim.semaphore == semaphore}
        if not resources or (semaphore not in self._known and len(self._known) >= SEMAPHORES):
            return
        known = self._known.setdefault(semaphore, _Saturated(self._now()))
        if len(known.resources) < KEYS:
            # A new set: another thread reads the old one.
            known.resources = known.resources | resources

    def tell(self, store: Store) -> None:
        """Log each semaphore at which tasks still wait a minute after the last word about it."""
        now = self._now()
        for semaphore, known in list(self._known.items()):
            if now - known.told_at < EACH_S:
                continue
            found = [each for each in store.totals(sorted(known.resources)) if each.waiting]
            if not found:
                self._known.pop(semaphore, None)
                continue
            known.told_at, known.resources = now, {each.resource for each in found}
            logger.info(
                "semaphore %r %s: %d wait, the oldest for %.0f s",
                semaphore,
                ", ".join(_states(found)),
                sum(each.waiting for each in found),
                max(each.oldest_wait or 0.0 for each in found),
            )


def _states(found: Sequence[Totals]) -> Iterator[str]:
    """Say why tasks wait there, and for each reason at how many of the keys: these are not named."""
    counted = Counter(map(_state, found))
    for state in (SATURATED, PAUSED, TOO_HEAVY):
        if count := counted[state]:
            yield f"{state} at {count} of its keys" if "/" in found[0].resource else state


def _state(at: Totals) -> str:
    if at.paused:
        return PAUSED
    return TOO_HEAVY if at.set_aside >= at.waiting else SATURATED
