"""BusyPool: what is granted waits for a process for a moment only, if another worker can get it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery.worker import state

from celery_semaphore.core.permit import Claim
from celery_semaphore.core.session import GRANT_S, HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.holding.busy_pool import SENT_ON_AFTER_S, BusyPool
from celery_semaphore.worker.holding.unstarted import Unstarted

CLAIMS = (Claim("one", None, 1),)


class Request:
    """A fresh request of a granted message, which waits for a process."""

    time_start = None
    granted = True

    def __init__(self, name: str) -> None:
        self.id = self.name = name
        self.has_granted_queue = self.is_connected = True

    def may_be_sent_on(self) -> bool:
        return self.has_granted_queue

    def may_be_moved(self) -> bool:
        return self.is_connected


class Pool:
    """A pool without a free process, and a clock and a timer of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.calls: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []
        self.line: list[tuple[object, list[Request]]] = []
        self.sent: list[str] = []
        self.unstarted = Unstarted()
        controller = SimpleNamespace(semaphore=SimpleNamespace(_waiting=self.line))
        c = SimpleNamespace(controller=controller, timer=self)
        self.session = SimpleNamespace(sessions=2, unstarted=self.unstarted)
        self.busy = BusyPool(cast("Any", c), cast("Any", self.session), self.send_on)

    def monotonic(self) -> float:
        return self.now

    def call_after(self, delay: float, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.calls.append((self.now + delay, call, args))

    def send_on(self, request: Any, ticket: Ticket) -> None:
        assert request not in state.reserved_requests
        self.sent.append(ticket.nonce)

    def run(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.calls if each[0] <= self.now]
        self.calls = [each for each in self.calls if each[0] > self.now]
        for _, call, args in due:
            call(*args)

    def granted(self, name: str) -> Request:
        """One more waits for a process."""
        request, wait = Request(name), HeldWait(Ticket(name, 0, 1), CLAIMS)
        self.line.append((None, [request]))
        state.reserved_requests.add(request)
        self.unstarted.add(wait, cast("Any", request))
        self.busy.watch(wait, cast("Any", request))
        return request

    def waiting(self) -> list[str]:
        return [request.name for _, (request,) in self.line]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    pool = Pool()
    monkeypatch.setattr("celery_semaphore.worker.holding.unstarted.time", pool)
    return pool


def test_what_a_process_takes_in_time_is_not_sent_on(pool: Pool) -> None:
    pool.granted("a")
    pool.run(SENT_ON_AFTER_S * 0.9)
    pool.line.clear()
    pool.run(1.0)
    assert pool.sent == []
    assert not pool.calls


def test_what_no_process_takes_is_sent_on(pool: Pool) -> None:
    pool.granted("a")
    pool.run(SENT_ON_AFTER_S * 0.9)
    assert pool.sent == []
    pool.run(SENT_ON_AFTER_S * 0.2)
    assert pool.sent == ["a"]
    assert pool.waiting() == []


def test_its_grant_lasts_while_it_is_on_its_way(pool: Pool) -> None:
    """But no longer than a grant that nobody prolongs: who receives it may have no free process either."""
    pool.granted("a")
    pool.run(SENT_ON_AFTER_S)
    pool.run(GRANT_S * 0.9)
    assert pool.unstarted.now().keys() == {"a"}
    assert not pool.unstarted.is_stuck(), "no process of this worker is waited for"
    pool.run(GRANT_S * 0.2)
    assert not pool.unstarted.now()


def test_one_at_a_time_is_sent_on(pool: Pool) -> None:
    """If all workers are busy, the others wait where they are."""
    for name in ("a", "b", "c"):
        pool.granted(name)
    pool.run(SENT_ON_AFTER_S)
    pool.run(SENT_ON_AFTER_S * 10)
    assert pool.sent == ["a"]
    begun = pool.unstarted.now()
    pool.unstarted.forget("a", begun["a"])  # another worker took its grant up
    pool.run(SENT_ON_AFTER_S)
    assert pool.sent == ["a", "b"]
    pool.run(GRANT_S * 1.1)
    pool.run(SENT_ON_AFTER_S)
    assert pool.sent == ["a", "b", "c"]


def test_without_a_granted_queue_it_waits_for_the_next_process(pool: Pool) -> None:
    request = Request("a")
    request.has_granted_queue = False
    pool.line.append((None, [request]))
    pool.busy.watch(HeldWait(Ticket("a", 0, 1), CLAIMS), cast("Any", request))
    pool.run(1.0)
    assert pool.sent == []
    assert pool.waiting() == ["a"]


def test_without_another_worker_it_waits_for_the_next_process(pool: Pool) -> None:
    """Its message would only come back."""
    pool.session.sessions = 1
    pool.granted("a")
    pool.run(1.0)
    assert pool.sent == []


def test_what_a_lost_connection_delivered_is_not_sent_on(pool: Pool) -> None:
    """The broker delivers it again: another message would be a copy."""
    request = pool.granted("a")
    request.is_connected = False
    pool.run(1.0)
    assert pool.sent == []
