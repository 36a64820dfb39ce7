"""Test that many messages of one broker hide none of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.acquisition import admitted, claim
from tests.conformance.grants import messages
from tests.conformance.parked.brokers import A, B, opened, parked_for
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.grant import Grant
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

MANY = 990  # more than a store returns at once, and no more than the shortest line has


class ManyOfABroker(Suite):
    def test_many_of_another_broker_hide_none(self, store: Store) -> None:
        """Read the outbox on to the first message that the caller can send."""
        others = [(A, f"a{n:04}") for n in range(MANY)]
        outgoing = opened(store, *others, (B, "b"), limit=2000)
        assert messages(store.take(outgoing, B)) == [b"b"]
        assert store.take(outgoing, B) == []
        taken: list[Grant] = []
        while some := store.take(outgoing, A):
            taken += some
        assert len(taken) == MANY

    def test_many_of_another_broker_that_ended_hide_none(self, store: Store, clock: Clock) -> None:
        """Look at some of them in each call, at others in the next one."""
        admitted(store, claim(), "busy")
        for n in range(MANY):
            parked_for(store, A, f"{n:04}")
        parked_for(store, B, f"{MANY // 2:04} ended")
        parked_for(store, B, "granted")
        outgoing = store.end([f"{n:04}" for n in range(MANY)] + [f"{MANY // 2:04} ended"])
        outgoing |= store.set_limit(2, "api")
        first = messages(store.take(outgoing, B))
        assert b"granted" in first
        for _ in range(100):
            clock.advance(0.0377)
            first += messages(store.take(outgoing, B))
        assert sorted(first) == [f"{MANY // 2:04} ended".encode(), b"granted"]
