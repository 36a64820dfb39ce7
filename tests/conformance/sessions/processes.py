"""Test which processes a store knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.formats import FORMAT
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Processes(Suite):
    def test_a_process_that_reaps_is_known_by_its_format(self, store: Store, clock: Clock) -> None:
        for _ in range(3):
            store.reap()
            assert store.processes() == {FORMAT: 1}
            clock.advance(LEASE)
