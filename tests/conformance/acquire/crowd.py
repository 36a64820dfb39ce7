"""Test many callers at once, in threads; the clock stands still."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from celery_semaphore.core.grant import Grant
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import claim
from tests.conformance.grants import attached, released
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery_semaphore.core.store import Store


class Bodies:
    """Records which bodies really run, to be compared with the store's records."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.ran: list[str] = []
        self._lock = Lock()

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.ran.append(name)
        yield
        with self._lock:
            self.now -= 1


class Crowd(Suite):
    def test_never_above_the_limit_and_nobody_is_lost(self, store: Store) -> None:
        """Run or park each task that arrives; run the tasks that each release hands on to."""
        bodies = Bodies()
        wanted = claim(3)

        def run(permit: Permit, name: str) -> None:
            with bodies.running(name):
                pass
            for grant in released(store, permit.holder, wanted):
                take_up(grant)

        def take_up(grant: Grant) -> None:
            name = grant.payload.decode()
            wait = Wait(Kind.PARK, ticket=grant.ticket)
            permit = store.acquire(wanted, f"{name}-again", wait)
            assert isinstance(permit, Permit), permit
            run(permit, name)

        def arrive(n: int) -> None:
            answer = store.acquire(wanted, str(n), Wait(Kind.PARK))
            if isinstance(answer, Permit):
                run(answer, str(n))
            else:
                assert answer.ticket
                for grant in attached(store, answer.ticket, wanted, str(n).encode()):
                    take_up(grant)

        with ThreadPoolExecutor(8) as crowd:
            list(crowd.map(arrive, range(200)))
        assert sorted(map(int, bodies.ran)) == list(range(200))
        assert bodies.most <= 3
        assert list(store.resources()) == []
