"""What a worker says about the queues that it consumes, without a worker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.worker.messages import consumed_queues
from celery_semaphore.worker.messages.consumed_queues import ConsumedQueues


class Store(MemoryStore):
    """Counts what it is asked, and fails when the test wants: after it has noted what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[set[str]] = []
        self.lost = 0

    def consume(self, worker: str, queues: Collection[str], left: Collection[str] = ()) -> None:
        super().consume(worker, queues, left)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("hung")

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        self.asked.append({*queues})
        return super().unconsumed(queues)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def consumes() -> set[str]:
    return {"celery"}


@pytest.fixture
def queues(store: Store, consumes: set[str]) -> ConsumedQueues:
    found = ConsumedQueues(lambda: store)
    found.connected(lambda: consumes)
    return found


def test_it_says_what_it_consumes(store: Store, queues: ConsumedQueues, consumes: set[str]) -> None:
    queues.say()
    assert store.unconsumed(["celery", "added"]) == {"added"}
    consumes ^= {"celery", "added"}
    queues.say()
    assert store.unconsumed(["celery", "added"]) == {"celery"}


def test_what_it_left_while_the_answer_was_lost(
    store: Store, queues: ConsumedQueues, consumes: set[str]
) -> None:
    store.lost = 1
    with pytest.raises(StoreUnavailable):
        queues.say()
    consumes.clear()
    queues.say()
    assert store.unconsumed(["celery"]) == {"celery"}


def test_the_farewell_is_the_last_word(store: Store, queues: ConsumedQueues) -> None:
    queues.say()
    queues.leave()
    queues.say()
    queues.say()
    assert store.unconsumed(["celery"]) == {"celery"}
    queues.join(0.0)


def test_a_worker_that_ends_consumes_nothing_again(store: Store, queues: ConsumedQueues) -> None:
    """What the event loop was asked to do may be done after the shutdown has begun."""
    queues.leave()
    queues.connected(lambda: ["celery"])
    queues.say()
    assert store.unconsumed(["celery"]) == {"celery"}


def test_a_farewell_that_failed_is_said_again(store: Store, queues: ConsumedQueues) -> None:
    queues.say()
    queues.leave()
    store.lost = 1
    with pytest.raises(StoreUnavailable):
        queues.say()
    store.consume("it", ["celery"])
    store.consume("it", [], ["celery"])
    queues.say()
    assert store.unconsumed(["celery"]) == {"celery"}


def test_a_lost_connection_is_no_farewell(store: Store, queues: ConsumedQueues) -> None:
    """All workers notice an outage of the broker: if each said farewell, all parked tasks would go to the broker."""
    queues.say()
    queues.disconnected()
    queues.say()
    assert store.unconsumed(["celery"]) == frozenset()
    assert queues.own() == frozenset()


def test_its_own_queues_need_no_question(store: Store, queues: ConsumedQueues) -> None:
    assert queues.unconsumed(["celery"]) == frozenset()
    assert store.asked == []


def test_an_answer_holds_for_a_second(
    store: Store, queues: ConsumedQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    clock: Any = type("time", (), {"monotonic": staticmethod(lambda: now[0])})
    monkeypatch.setattr(consumed_queues, "time", clock)
    store.consume("another", ["b"])
    assert queues.unconsumed(["a", "b"]) == {"a"}
    assert queues.unconsumed(["a", "b", "c"]) == {"a", "c"}
    assert store.asked == [{"a", "b"}, {"c"}]
    store.consume("another", ["a"], ["b"])
    now[0] += consumed_queues.ANSWER_LASTS_S
    assert queues.unconsumed(["a", "b"]) == {"b"}


def test_a_queue_that_it_just_left_has_no_consumer(
    store: Store, queues: ConsumedQueues, consumes: set[str]
) -> None:
    """The sweep may say it a moment later; what is sent there meanwhile would wait for a worker that is gone."""
    queues.say()
    consumes.clear()
    assert queues.unconsumed(["celery"]) == {"celery"}


def test_it_warns_once_an_hour_for_each_queue(
    queues: ConsumedQueues, caplog: pytest.LogCaptureFixture
) -> None:
    for queue in ("bulk", "bulk", "other"):
        queues.warn(queue)
    assert [message.split("'")[1] for message in caplog.messages] == ["bulk", "other"]


def test_the_last_worker_that_ends_asks_for_nothing(
    queues: ConsumedQueues, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has to start a worker or purge a queue at each deploy; but of a queue that it did not consume."""
    queues.say()
    queues.leave()
    queues.leave()  # by two steps of the worker
    queues.say()
    queues.warn("celery")
    queues.warn("bulk")
    ending, other = caplog.messages
    assert "now that this worker ends" in ending
    assert "purge" not in ending
    assert "now that" not in other
    assert "purge the queue" in other
