"""A store of a test: it renews and releases as the test decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.store import HandedOn
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import SemaphoreError, StoreUnavailable


def permit(holder: str, *claims: Claim) -> Permit:
    return Permit(holder, 1, claims, 0.0, 30.0, 1)


class FailingStore:
    """Renews and releases; how, the test decides."""

    lease = 30.0
    calls_at_once = 2
    one_round_trip = False

    def __init__(self) -> None:
        self.renewed: list[str] = []
        self.released: list[tuple[str | Ticket, list[str]]] = []
        self.together: list[list[str | Ticket]] = []  # the holders of each ``call_all``
        self.failures = 0
        self.after_renew = lambda: None

    def renew(self, permits: Any) -> dict[str, Renewal]:
        self.renewed = [each.holder for each in permits]
        self.after_renew()
        if self.failures:
            raise StoreUnavailable("hung")
        return dict.fromkeys(self.renewed, Renewal.OK)

    def release(self, holder: str | Ticket, claims: Any, message_id: Any = None) -> HandedOn:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("hung")
        self.released.append((holder, [claim.resource for claim in claims]))
        return HandedOn()

    def call_all(self, calls: Any) -> Sequence[HandedOn | SemaphoreError]:
        self.together.append([call.holder for call in calls])
        return [self.release(call.holder, call.claims) for call in calls]

    def reap(self, limit: int = 100) -> frozenset[str]:
        return frozenset()
