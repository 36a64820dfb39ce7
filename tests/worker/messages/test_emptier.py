"""The emptier of granted queues, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.emptier import Emptier
from celery_semaphore.worker.messages.ticket_header import (
    TICKET,
    Carried,
    message_id_of,
    sent_back,
)

ONE = Claim("one", None, 1)


class Message:
    def __init__(self, header: str) -> None:
        self.headers = {"id": "x", TICKET: header}
        self.acknowledged = False

    def ack(self) -> None:
        self.acknowledged = True


class Broker:
    """A publisher whose granted queue has one message."""

    def __init__(self, message: Message) -> None:
        self.granted = [message]
        self.published: list[tuple[str, str]] = []

    def fetch(self, queue: str) -> Message | None:
        assert queue == "celery.granted"
        return self.granted.pop() if self.granted else None

    def publish(self, _: Message, queue: str, *, header: str) -> None:
        self.published.append((queue, header))

    @staticmethod
    def unconsumed(queues: Any) -> frozenset[str]:
        return frozenset(queues)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(StoreOptions(now=clock))


def moved(store: MemoryStore, header: str) -> str:
    """Empty the granted queue; return the header of the message in its home queue."""
    message = Message(header)
    broker: Any = Broker(message)
    Emptier(broker, broker, ["celery"], {}, store=store, handed_on=lambda _: None).run()
    ((queue, moved),) = broker.published
    assert (queue, message.acknowledged) == ("celery", True)
    return str(moved)


def asks(store: MemoryStore, holder: str, header: str, *, redelivered: bool = False) -> Any:
    carried = Carried.read(header)
    assert carried
    brought = message_id_of({"id": "x", TICKET: header}, redelivered, 60.0)
    return store.acquire([ONE], holder, Wait(Kind.REQUEUE, carried.ticket), brought)


def granted(store: MemoryStore, clock: Clock) -> tuple[str, Ticket]:
    """Return the header of a message that was granted, and its ticket."""
    assert isinstance(store.acquire([ONE], "before"), Permit)
    first = asks(store, "x:1", sent_back("x:0", 1, None, 0))
    assert isinstance(first, Refusal)
    assert first.ticket
    store.release("before", [ONE])
    clock.advance(1)
    return sent_back("x:1", 1, first.ticket, 1, granted=[ONE]), first.ticket


@pytest.mark.parametrize("was_admitted", [True, False])
def test_a_message_that_was_admitted_does_not_come_back_at_its_old_place(
    store: MemoryStore, clock: Clock, *, was_admitted: bool
) -> None:
    """Return it to its granted queue after a run that did not end, or before any."""
    header, ticket = granted(store, clock)
    if was_admitted:
        assert isinstance(asks(store, "x:2", header), Permit)
        store.release("x:2", [ONE])
    assert isinstance(store.acquire([ONE], "busy"), Permit)
    other = store.acquire([ONE], "other", Wait(Kind.REQUEUE))
    assert isinstance(other, Refusal)
    clock.advance(1)
    answer = asks(store, "x:3", moved(store, header))
    assert isinstance(answer, Refusal)
    assert answer.ticket
    assert answer.ticket.nonce == ticket.nonce
    assert answer.ticket.since == (clock.now if was_admitted else ticket.since)


def test_sweeps_watch_a_queue_for_a_while(app: Celery) -> None:
    limiter = limiter_of(app)
    limiter.queues.connected(lambda: {"celery", "celery.granted", "alone"})
    store, mover = limiter.process.store, limiter.mover
    store.reap()  # so that it has an epoch
    swept = list[frozenset[str]]()

    def sweep() -> set[str]:
        mover._sweeping = None
        limiter._say_queues()
        return set(swept.pop())

    def empty(homes: Any) -> None:
        swept.append(homes)

    mover._empty = empty  # type: ignore[method-assign]
    sweep()
    mover._absent |= {"sent to": 9e9, "away": 9e9}
    mover.watch({"sent to", "celery"})
    mover.leave({"left"})
    assert swept.pop() == {"left"}, "at once, too"
    assert mover._absent == {"away": 9e9}, "it may be there by now"
    store.in_force = (0, 50_000_000)
    assert sweep() == {"alone", "sent to", "left"}, "it consumes the granted queue of the other one"
    mover._watched["left"] -= 50
    assert sweep() == {"alone", "sent to"}
    store.in_force = (0, 1_000_000)
    mover._watched["sent to"] -= 5
    assert sweep() == {"alone", "sent to"}, "until the next sweep, however short a grant is"
    store.in_force = (0, 50_000_000)
    limiter.queues.disconnected()
    limiter._say_queues()
    assert not swept, "without a connection it knows of no other worker"
    limiter.queues.connected(lambda: {"alone"})
    store.epoch = (store.epoch or 0) + 1
    assert sweep() == {"alone"}, "the others may not have said yet what they consume"


def test_one_sweep_at_a_time_empties_queues(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may be slow, or away: other messages wait for the same thread."""
    mover, jobs = limiter_of(app).mover, list[Emptier]()
    monkeypatch.setattr(mover._scheduler, "add", jobs.append)
    monkeypatch.setattr(mover._queues, "unconsumed", lambda _: frozenset())
    mover.watch({"sent to"})
    for _ in range(3):
        mover.sweep()
    assert len(jobs) == 1
    jobs[0].run()
    mover.sweep()
    mover.sweep()
    assert len(jobs) == 2
    jobs[1].on_give_up()
    mover.sweep()
    assert len(jobs) == 3
