"""What to do without a permit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from .permit import Kind, Wait


class OnSaturated(StrEnum):
    """What happens to a task for which no permit is free."""

    REQUEUE = "requeue"  # its message goes back with a countdown
    PARK = "park"  # its message lies in the store until a permit is handed to it
    DROP = "drop"  # ends as revoked, with a log line
    FAIL = "fail"  # failed with SemaphoreSaturated


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How one task waits. All in seconds."""

    on_saturated: OnSaturated
    shortest: float
    longest: float
    timeout: float | None

    def wait(
        self, ticket: str | None, priority: int, session: str = "", keeps: float = 0.0
    ) -> Wait | None:
        """What to tell the store; None for a task that would not wait. The ``session`` asks for the grants of requeued ones.

        Without a session they come back a little before their turn is due: one that comes too late leaves a permit idle,
        one that comes too early only asks once more. The jitter keeps those of equal place apart.
        """
        if self.on_saturated in (OnSaturated.DROP, OnSaturated.FAIL):
            return None
        jitter = random.uniform(0.6, 0.8)  # noqa: S311 - not a secret
        kind = Kind(self.on_saturated)
        if kind is not Kind.REQUEUE:
            session = ""
        return Wait(
            kind,
            ticket,
            priority,
            self.shortest,
            self.longest,
            jitter,
            self.timeout,
            session,
            keeps,
        )

    def unanswered(self) -> float:
        """When to come back, in seconds, if the store could not be asked at all."""
        delay = random.uniform(1.0, 5.0)  # noqa: S311 - not a secret
        return min(max(delay, self.shortest), self.longest)
