"""Define how a task that gets no permit waits or ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from .permit import Kind, Wait
from .ticket import Ticket


class OnSaturated(StrEnum):
    """What happens to a task for which no permit is free."""

    WAIT = "wait"  # as "park" if the store may keep messages, else as "requeue": see parking.py
    REQUEUE = "requeue"  # a worker holds its message, or publishes it again with a countdown
    PARK = "park"  # its message is in the store until it is granted a permit
    DROP = "drop"  # it ends as revoked, with a log line
    FAIL = "fail"  # it fails with SemaphoreSaturated


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How one task waits. Durations are in seconds."""

    on_saturated: OnSaturated
    shortest: float
    longest: float
    timeout: float | None

    def settled(self, *, parks: bool | None) -> WaitPolicy:
        """Return the policy of one attempt, for which its worker decided whether the task parks if it must wait.

        Without a decision, as a worker of an older release makes none, a task is parked only if it says so itself.
        """
        if self.on_saturated not in {OnSaturated.WAIT, OnSaturated.PARK}:
            return self
        if parks is None:
            parks = self.on_saturated is OnSaturated.PARK
        return replace(self, on_saturated=OnSaturated.PARK if parks else OnSaturated.REQUEUE)

    def wait(
        self, ticket: Ticket | None, priority: int, session: str = "", keeps: float = 0.0
    ) -> Wait | None:
        """Return how the task would wait; None if it would not. The ``session`` asks for the grants of requeued tasks.

        Without a session a task comes back a little before its turn is due: too late would leave a permit idle, too
        early only costs another acquire. The jitter spreads tasks with the same place.
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
        """Return the seconds until the task comes back if the store did not answer at all."""
        delay = random.uniform(1.0, 5.0)  # noqa: S311 - not a secret
        return min(max(delay, self.shortest), self.longest)
