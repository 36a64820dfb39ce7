"""Test which queues of the broker a store knows to be consumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.names import LONGEST_NAME
from celery_semaphore.core.store import CONSUMED_FOR_S
from celery_semaphore.errors import SemaphoreError
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

A, B = "worker a", "worker b"
LASTS = max(CONSUMED_FOR_S, LEASE)
ODD = [
    "",
    "celery",
    "celery.granted",
    "a:b",
    "{x}",
    "a/b",
    "é\n",
    "%",
    "q" * 255,
    "\x00",
    "holders",
]


class ConsumedQueues(Suite):
    def test_a_queue_is_consumed_once_a_worker_says_so(self, store: Store) -> None:
        assert store.unconsumed(["celery", "bulk"]) == {"celery", "bulk"}
        store.consume(A, ["celery"])
        assert store.unconsumed(["celery", "bulk"]) == {"bulk"}
        assert store.unconsumed([]) == frozenset()

    def test_what_is_said_again_changes_nothing(self, store: Store) -> None:
        """Repeat each call, as if its answer were lost."""
        for _ in range(2):
            store.consume(A, ["celery"], ["bulk"])
            assert store.unconsumed(["celery", "bulk"]) == {"bulk"}
        for _ in range(2):
            store.consume(A, [], ["celery"])
            assert store.unconsumed(["celery"]) == {"celery"}

    def test_a_queue_is_consumed_until_its_last_worker_left(self, store: Store) -> None:
        store.consume(A, ["celery", "bulk"])
        store.consume(B, ["celery"])
        store.consume(A, ["bulk"], ["celery"])
        assert store.unconsumed(["celery", "bulk"]) == frozenset()
        store.consume(B, [], ["celery"])
        assert store.unconsumed(["celery", "bulk"]) == {"celery"}

    def test_a_worker_that_says_no_more_is_forgotten(self, store: Store, clock: Clock) -> None:
        store.consume(A, ["celery"])
        clock.advance(LASTS - 0.001)
        assert store.unconsumed(["celery"]) == frozenset()
        clock.advance(0.001)
        assert store.unconsumed(["celery"]) == {"celery"}

    def test_a_worker_that_says_it_again_stays(self, store: Store, clock: Clock) -> None:
        """Neither another worker's farewell nor its end takes the queue from it."""
        store.consume(B, ["celery"])
        for _ in range(4):
            store.consume(A, ["celery"])
            clock.advance(LASTS / 2)
            assert store.unconsumed(["celery"]) == frozenset()
        clock.advance(LASTS / 2)
        assert store.unconsumed(["celery"]) == {"celery"}

    def test_a_worker_that_returns_counts_again(self, store: Store, clock: Clock) -> None:
        store.consume(A, ["celery"])
        clock.advance(2 * LASTS)
        store.consume(A, ["celery"])
        assert store.unconsumed(["celery"]) == frozenset()

    @pytest.mark.parametrize("step", [-4 * LASTS, -LASTS])
    def test_no_worker_counts_for_the_length_of_a_step_back(
        self, store: Store, clock: Clock, step: float
    ) -> None:
        store.consume(A, ["celery"])
        clock.advance(step)
        assert store.unconsumed(["celery"]) == {"celery"}
        store.consume(B, ["celery"])
        assert store.unconsumed(["celery"]) == frozenset()
        store.consume(B, [], ["celery"])
        clock.advance(-step)
        assert store.unconsumed(["celery"]) == {"celery"}

    def test_a_queue_may_have_any_name(self, store: Store) -> None:
        for queue in ODD:
            store.consume(A, [queue])
            assert store.unconsumed(ODD) == {*ODD} - {queue}
            store.consume(A, [], [queue])

    def test_a_name_that_is_too_long_is_refused(self, store: Store) -> None:
        for worker, queue in ((A, "q" * (LONGEST_NAME + 1)), ("w" * (LONGEST_NAME + 1), "celery")):
            with pytest.raises(SemaphoreError, match="the name of a"):
                store.consume(worker, [queue])

    def test_many_queues(self, store: Store) -> None:
        queues = [f"q{n}" for n in range(1_000)]
        store.consume(A, queues)
        assert store.unconsumed([*queues, "other"]) == {"other"}
        store.consume(A, queues[::2], queues[1::2])
        assert store.unconsumed(queues) == set(queues[1::2])

    def test_what_a_store_forgot_is_said_again(self, store: Store) -> None:
        store.consume(A, ["celery"])
        self.forget(store)
        assert store.unconsumed(["celery"]) == {"celery"}
        store.consume(A, ["celery"])
        assert store.unconsumed(["celery"]) == frozenset()
