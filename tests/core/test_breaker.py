"""CircuitBreaker: how long it stays open, and when it closes."""

from __future__ import annotations

import pytest

from celery_semaphore.core.breaker import CircuitBreaker
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.testing import Clock


def test_the_breaker() -> None:
    clock = Clock()
    breaker = CircuitBreaker(1.0, 15.0, clock)
    breaker.check()
    pauses = []
    for _ in range(6):
        breaker.failed(StoreUnavailable("hung"))
        with pytest.raises(StoreUnavailable, match="hung"):
            breaker.check()
        since = clock.now
        while clock.now < since + 100:
            clock.now += 0.5
            try:
                breaker.check()
            except StoreUnavailable:
                continue
            break
        pauses.append(clock.now - since)
    assert pauses == [1, 2, 4, 8, 15, 15]
    breaker.succeeded()
    breaker.failed(StoreUnavailable("hung"))
    clock.now += 1
    breaker.check()
