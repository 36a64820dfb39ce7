"""KnownLines: remember at which resources tasks wait, so that one which comes now must wait, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from ...core.claim import Claim

LONGEST_S = 1.0  # after the last refusal: the line may have ended without a word to this worker
MOST = 1000  # resources: a sender may invent keys


class KnownLines:
    """Knows a line until the turn of the task that was refused last. Changed by atomic operations, without a lock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[str, float] = {}  # by resource, the one refused last at the end
        self._over_at = 0.0  # when none is known any more

    def __bool__(self) -> bool:
        return bool(self._until) and self._now() < self._over_at

    def refused(self, semaphore: str, claims: Sequence[Claim], delay: float) -> None:
        """Note that a task waits at the semaphore that refused these claims, for about ``delay`` seconds."""
        until = self._now() + min(delay, LONGEST_S)
        self._over_at = max(self._over_at, until)
        for claim in claims:
            if claim.semaphore == semaphore:
                self._until.pop(claim.resource, None)
                self._until[claim.resource] = until
        for resource in [*self._until][:-MOST]:
            self._until.pop(resource, None)

    def include(self, claims: Collection[Claim]) -> bool:
        """Return whether a task with these claims must wait now."""
        now = self._now()
        return any(self._until.get(claim.resource, now) > now for claim in claims)

    def forget(self, claims: Collection[Claim]) -> None:
        """Forget the lines of these claims: a task got its permit, or the store does not answer."""
        for claim in claims:
            self._until.pop(claim.resource, None)
