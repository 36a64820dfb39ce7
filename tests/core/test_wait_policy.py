"""What a refusal says of the time until the permit."""

from __future__ import annotations

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Wait
from celery_semaphore.core.wait_policy import OnSaturated, WaitPolicy
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore

POLICY = WaitPolicy(OnSaturated.REQUEUE, 0.1, 300.0, None)


def refused(store: MemoryStore, holder: str, wait: Wait | None, limit: int) -> Refusal:
    answer = store.acquire([Claim("api", None, limit)], holder, wait)
    assert isinstance(answer, Refusal)
    return answer


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("held_for", [None, 30.0, 0.9, 5.0])
def test_an_estimate_needs_a_permit_that_was_released(limit: int, held_for: float | None) -> None:
    """Else the store assumes a second, and a task of twenty seconds would seem to wait for 0.7."""
    clock = Clock()
    store = MemoryStore(StoreOptions(lease=60.0, now=clock))
    if held_for is not None:
        permit = store.acquire([Claim("api", None, limit)], "before:1")
        assert isinstance(permit, Permit)
        clock.advance(held_for)
        store.release("before:1", permit.claims)
    for n in range(limit):
        store.acquire([Claim("api", None, limit)], f"h{n}:1")
    policy = POLICY.settled(parks=False)
    for n in range(3):
        refusal = refused(store, f"w{n}:1", policy.wait(None, 9), limit)
        estimate = policy.estimate(refusal)
        told = held_for is not None and refusal.retry_after > policy.shortest
        assert estimate == (refusal.retry_after if told else None)


def test_a_bound_that_its_user_chose_is_told() -> None:
    """A published message comes back after that time, whatever is known."""
    policy = WaitPolicy(OnSaturated.REQUEUE, 3.2, 3.4, None, 0.7)
    refusal = Refusal(Claim("api", None, 1), Reason.SATURATED, 1, 1, None, 0, 3.2, 0.0)
    assert policy.estimate(refusal) == 3.2


def test_each_attempt_draws_its_jitter_once() -> None:
    policy = POLICY.settled(parks=False)
    waits = [policy.wait(None, 9) for _ in range(2)]
    assert {wait.jitter for wait in waits if wait} == {policy.jitter}
    assert POLICY.settled(parks=False).jitter != policy.jitter
