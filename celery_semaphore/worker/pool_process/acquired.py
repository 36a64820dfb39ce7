"""Acquired: a permit and the wait for it, as attributes of a span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ...core.permit import Permit
from ...core.ticket import Ticket

# The attributes of a span.
WAIT_SECONDS = "celery_semaphore.wait_seconds"
SEMAPHORE = "celery_semaphore.semaphore"
ATTEMPTS = "celery_semaphore.attempts"
Attributes = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Acquired:
    """A permit, and the wait for it."""

    permit: Permit
    waited: float  # seconds since the first refusal, by the store's clock
    attempts: int  # with the one that acquired

    @classmethod
    def by(cls, permit: Permit, ticket: Ticket | None, refusals: int) -> Self:
        """Return the permit with its wait; a task without a ticket was never refused by a store that it reached."""
        return cls(permit, seconds_waited(permit, ticket), refusals + 1)

    @property
    def attributes(self) -> Attributes:
        """The attributes of the run's span; a key is not among them, as keys come from arguments."""
        semaphores = dict.fromkeys(claim.semaphore for claim in self.permit.claims)
        return {
            WAIT_SECONDS: self.waited,
            SEMAPHORE: ",".join(semaphores),
            ATTEMPTS: self.attempts,
        }


def seconds_waited(permit: Permit, ticket: Ticket | None) -> float:
    """Return the time from the first refusal to the permit; the store's clock may have stepped back between them."""
    return 0.0 if ticket is None else max(permit.acquired_at - ticket.since, 0.0)
