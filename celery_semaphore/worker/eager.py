"""Eager tasks: within the limit as all others, but they wait where they stand, for a bounded time."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from ..core.permit import Claim, Kind, Permit, Reason, Refusal, Wait
from ..core.saturation import OnSaturated, Patience
from ..errors import SemaphoreTimeout
from .headers import ASKING
from .limiter import Limiter
from .local import PendingRelease, watch_ends
from .refusal import refusal_of


def wait_here(task: Any, limiter: Limiter, claims: Sequence[Claim], patience: Patience) -> Permit:
    """Block until there is a permit; raises ``SemaphoreTimeout``, or what the policy says.

    An eager task that calls another one of the same semaphore while it holds the last permit waits
    for itself: the time-out ends that.
    """
    watch_ends()
    limiter.start()
    holder = f"{task.request.id}:{os.urandom(8).hex()}"
    task.request.__dict__[ASKING] = PendingRelease(holder, claims)
    limiter.side.ledger.asked(holder, claims)
    bound = min(limiter.settings.eager_timeout, patience.timeout or float("inf"))
    deadline, ticket = time.monotonic() + bound, None
    while True:
        since = time.monotonic()
        wait = Wait(Kind.REQUEUE, ticket, 0, patience.shortest, 1.0)
        answer = limiter.side.store.acquire(claims, holder, wait)
        if isinstance(answer, Permit):
            limiter.side.ledger.held(answer, since)
            return answer
        waits = patience.on_saturated in (OnSaturated.REQUEUE, OnSaturated.PARK)
        if not waits and answer.reason is not Reason.RECOVERING:
            raise refusal_of(task, answer, patience)
        _sleep(answer, deadline, bound)
        ticket = answer.ticket


def _sleep(refusal: Refusal, deadline: float, bound: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        msg = (
            f"semaphore {refusal.claim.semaphore!r}: no permit for an eager task in {bound:.1f} s,"
            f" {refusal.occupied} of {refusal.limit} in use (semaphore_eager_timeout)"
        )
        raise SemaphoreTimeout(msg)
    time.sleep(min(refusal.retry_after, left))
