"""Define how a task that gets no permit waits or ends."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from math import isclose
from typing import TYPE_CHECKING

from .wait import SHORTEST_DELAY_S, Kind, Wait

if TYPE_CHECKING:
    from .refusal import Refusal
    from .ticket import Ticket

UNKNOWN_HOLD_S = (
    1.0  # how long stores take a permit to be held where none was released: DEFAULT_MEAN there
)
DOUBLINGS = 10  # of a delay; the upper bound is reached before
ALIKE = 1e-4  # relative: a store counts in whole microseconds


class OnSaturated(StrEnum):
    """What happens to a task for which no permit is free."""

    WAIT = "wait"  # as "park" if the store may keep messages, else as "requeue": see parking.py
    REQUEUE = "requeue"  # a worker keeps its message, or publishes it again with a countdown
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
    jitter: float | None = None  # of the delay of one attempt; None draws one

    @property
    def waits(self) -> bool:
        """Whether the task waits for a permit; else it ends without one."""
        return self.on_saturated not in (OnSaturated.DROP, OnSaturated.FAIL)

    def settled(self, *, parks: bool | None) -> WaitPolicy:
        """Return the policy of one attempt, for which its worker decided whether the task parks if it must wait.

        Without a decision, as a worker of an older release makes none, a task is parked only if it says so itself.
        """
        how = self.on_saturated
        if how in {OnSaturated.WAIT, OnSaturated.PARK}:
            if parks is None:
                parks = self.on_saturated is OnSaturated.PARK
            how = OnSaturated.PARK if parks else OnSaturated.REQUEUE
        return WaitPolicy(how, self.shortest, self.longest, self.timeout, _jitter())

    def wait(
        self, ticket: Ticket | None, priority: int, session: str = "", keeps: float = 0.0
    ) -> Wait | None:
        """Return how the task would wait; None if it would not. The ``session`` asks for the grants of requeued tasks.

        Without a session a task comes back a little before its turn is due: too late would leave a permit idle, too
        early only costs another acquire. The jitter spreads tasks with the same place.
        """
        if not self.waits:
            return None
        jitter = self.jitter or _jitter()
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

    def estimate(self, refusal: Refusal) -> float | None:
        """Return in how many seconds this attempt may get its permit; None where no permit was released yet.

        A store that knows no hold assumes one of ``UNKNOWN_HOLD_S``. Its answer does not say so, but the same sum does.
        A delay that only the default lower bound makes is no estimate either; the upper bound is told as it is.
        """
        turn = (self.jitter or 0.0) * (refusal.position + 1) / max(refusal.limit, 1)
        guess = turn * UNKNOWN_HOLD_S
        if self.shortest <= SHORTEST_DELAY_S:
            guess = max(guess, self.shortest)
        if isclose(refusal.retry_after, guess, rel_tol=ALIKE):
            return None
        return min(max(refusal.retry_after, self.shortest), self.longest)

    def unanswered(self, before: int = 0) -> float:
        """Return the seconds until the task comes back if the store was not asked, or did not answer at all.

        They double with each time ``before``, for what will not pass by itself.
        """
        delay = random.uniform(1.0, 5.0) * 2.0 ** min(before, DOUBLINGS)  # noqa: S311 - not a secret
        return min(max(delay, self.shortest), self.longest)


def usage(refusal: Refusal) -> str:
    """Say how much of the limit is in use, and how much waits keep; in a pause the limit behind it is not known."""
    kept = f", {refusal.kept} kept for waiting tasks" if refusal.kept else ""
    of_limit = f" of {refusal.limit}" if refusal.limit else ""
    return f"{refusal.occupied}{of_limit} in use{kept}"


def too_heavy(refusal: Refusal) -> str:
    """Say which limit in force a weight is above, and where that limit comes from."""
    by = f"declared by {refusal.declared_by}" if refusal.declared_by else "set by an operator"
    return f"its weight {refusal.claim.weight} is above the limit {refusal.limit} in force, {by}"


def _jitter() -> float:
    return random.uniform(0.6, 0.8)  # noqa: S311 - not a secret
