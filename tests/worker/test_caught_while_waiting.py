"""What only mutants showed to be untested, of messages that wait: see tests/mutants/parking.py."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.worker import state

from celery_semaphore.core.permit import Claim, Kind, Refusal, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.worker.errands import Errands
from celery_semaphore.worker.headers import sent_back
from celery_semaphore.worker.ledger import Ledger
from celery_semaphore.worker.message import packed, publication, unpacked
from celery_semaphore.worker.note import NotePipe
from celery_semaphore.worker.publisher import Publisher, Returned
from celery_semaphore.worker.route import Route
from celery_semaphore.worker.sweeper import Sweeper
from celery_semaphore.worker.waiting import BringBack, Park, PutBack
from tests.support.process import wait_until

ONE = Claim("one", None, 1)
SENT = sent_back("x:0", 1, None)  # the header of a message that went back once


def a_message(**more: Any) -> Any:
    fields = {"body": b"[]", "headers": {"id": "x"}, "properties": {}}
    return SimpleNamespace(
        **{**fields, "content_type": "application/json", "content_encoding": "utf-8", **more}
    )


class Request:
    """Was refused; remembers what became of it."""

    id, holder = "x", "x:0123"

    def __init__(self, *, may_go_back: bool = True) -> None:
        self.message, self.said = a_message(), list[str]()
        self._may_go_back = may_go_back

    def came_from(self) -> str:
        return "celery"

    def comes_back_to(self) -> str:
        return "celery.granted"

    def may_go_back(self) -> bool:
        return self._may_go_back

    def went_back(self) -> None:
        self.said.append("went back")

    def came_to_nothing(self) -> None:
        self.said.append("came to nothing")


class Broker:
    """In place of a publisher: has what was published, or raises what the test wants."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.queues, self.declared = list(errors), list[str](), list[str]()
        self.tickets: list[str] = []

    def publish(self, _: Any, queue: str, *, ticket: str, delay: float = 0.0) -> None:
        self.tickets.append(ticket)
        if self.errors and (error := self.errors.pop(0)):
            raise error
        self.queues.append(queue)

    def declare(self, queue: str) -> None:
        self.declared.append(queue)


class Store(MemoryStore):
    """Remembers what it was told was sent; fails when the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.ended: list[list[str]] = []
        self.error: Exception | None = None

    def attach(self, *args: Any, **more: Any) -> Any:
        if self.error:
            raise self.error
        return super().attach(*args, **more)

    def end(self, names: Any) -> Any:
        self.ended.append(list(names))
        if self.error:
            raise self.error
        return super().end(names)

    def sent(self, grants: Any) -> None:
        self.told += [grant.ticket for grant in grants]
        super().sent(grants)


@pytest.fixture
def store() -> Store:
    return Store()


def refused(store: MemoryStore, holder: str) -> str:
    answer = store.acquire([ONE], holder, Wait(Kind.PARK))
    assert isinstance(answer, Refusal)
    assert answer.ticket
    return answer.ticket


def parked(store: MemoryStore, holder: str, queue: str = "celery.granted") -> str:
    ticket = refused(store, holder)
    store.attach(ticket, [ONE], packed(a_message(), queue), name=holder)
    return ticket


# -- into the store


def park(store: MemoryStore, request: Request, largest: int = 1000) -> list[str]:
    """What was done instead of parking, and what must be sent now."""
    did: list[str] = []
    store.set_limit(0, "one")
    ticket = refused(store, "x")
    Park(
        store,
        request,
        ticket,
        [ONE],
        ends_in=None,
        largest=largest,
        instead=lambda: did.append("instead"),
        outgoing=did.extend,
    ).run()
    return did


def test_a_message_is_acknowledged_when_the_store_has_it(store: Store) -> None:
    request = Request()
    assert park(store, request) == []
    assert request.said == ["went back"]
    request, store.error = Request(), ValueError("no")
    with pytest.raises(ValueError, match="no"):
        park(store, request)
    assert request.said == []


def test_what_the_store_cannot_take_goes_to_its_queue(store: Store) -> None:
    request, store.error = Request(), StoreUnavailable("hung")
    assert park(store, request) == ["instead"]
    assert request.said == []


def test_what_is_too_large_goes_to_its_queue(store: Store) -> None:
    request = Request()
    assert park(store, request, largest=10) == ["instead"]
    assert request.said == []


def test_what_a_lost_connection_delivered_is_not_parked(store: Store) -> None:
    assert park(store, Request(may_go_back=False)) == []
    store.set_limit(None, "one")
    assert store.take(frozenset({"one"})) == []


def test_a_message_comes_out_as_it_went_in() -> None:
    message = a_message(
        body=b"\x80\xff\n[]",
        headers={"id": "x", "compression": "application/x-gzip"},
        properties={"expiration": "90000", "priority": 3, "delivery_tag": "1"},
    )
    found = unpacked(packed(message, "celery"))
    assert (found.queue, found.body, found.headers) == ("celery", message.body, message.headers)
    sent = publication(found, route=Route("", "celery"), ticket="t", delay=0.0)
    assert (sent["expiration"], sent["priority"]) == (90.0, 3)
    assert "delivery_tag" not in sent
    text = unpacked(packed(a_message(body="[]"), "celery"))
    assert text.body == "[]"


# -- and out of it


def bring_back(store: MemoryStore, broker: Broker) -> BringBack:
    return BringBack(store, broker, frozenset({"one"}))  # type: ignore[arg-type]


def three_granted(store: MemoryStore) -> list[str]:
    store.set_limit(0, "one")
    tickets = [parked(store, holder) for holder in "abc"]
    store.set_limit(3, "one")
    return tickets


def test_the_store_is_told_what_the_broker_has(store: Store) -> None:
    """And not what it has not, which is sent at the next attempt, and nothing else."""
    tickets, broker = three_granted(store), Broker(None, ConnectionError("gone"))
    errand = bring_back(store, broker)
    with pytest.raises(ConnectionError):
        errand.run()
    assert store.told == tickets[:1]
    errand.run()
    assert store.told == tickets
    assert len(broker.queues) == 3


def test_who_has_no_queue_any_more_goes_to_its_own(store: Store) -> None:
    three_granted(store)
    broker = Broker(Returned("no queue"))
    bring_back(store, broker).run()
    assert broker.declared == ["celery"]
    assert broker.queues == ["celery", "celery.granted", "celery.granted"]


def test_each_that_is_brought_back_is_another_message(store: Store) -> None:
    """If the same one is brought twice the second is a copy."""
    three_granted(store)
    broker = Broker()
    bring_back(store, broker).run()
    assert len({ticket.partition(" ")[0] for ticket in broker.tickets}) == 3


def test_each_attempt_is_another_message() -> None:
    """One that was not confirmed may have arrived."""
    broker, request = Broker(ConnectionError("gone")), Request()
    errand = PutBack(broker, request, "t", 1.0)  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        errand.run()
    errand.run()
    assert broker.tickets == ["0123.1 t", "0123.2 t"]
    assert request.said == ["went back"]


@pytest.mark.rabbitmq
def test_a_message_that_no_queue_takes_comes_back(rabbitmq_url: str) -> None:
    publisher = Publisher(Celery("waits", broker=rabbitmq_url, set_as_current=False), 5.0)
    with pytest.raises(Returned):
        publisher.publish(a_message(), "no such queue", ticket=SENT)
    publisher.declare("there is one")
    publisher.publish(a_message(), "there is one", ticket=SENT)
    publisher.disconnect()


# -- errands


class Errand:
    name = "an errand"

    def __init__(self, log: list[Any], *, urgent: bool = False, fails: bool = False) -> None:
        self.log, self.urgent, self.fails = log, urgent, fails
        self.attempts, self.given_up = 0, False
        self.may_go, self.began = threading.Event(), threading.Event()
        self.may_go.set()

    def run(self) -> None:
        self.attempts += 1
        self.began.set()
        self.may_go.wait(10)
        if self.fails:
            raise ValueError("not yet")
        self.log.append(self)

    def gave_up(self) -> None:
        self.given_up = True


@pytest.fixture
def errands() -> Iterator[Errands]:
    errands = Errands(1.0, lambda: None, lambda: None)
    yield errands
    errands.close()


def test_the_urgent_goes_first(errands: Errands) -> None:
    """A permit is kept for what is brought back; nobody waits for what is put back."""
    assert BringBack.urgent
    assert not PutBack.urgent
    log: list[Any] = []
    first, second, urgent = Errand(log), Errand(log), Errand(log, urgent=True)
    first.may_go.clear()
    errands.add(first)
    assert first.began.wait(10)
    errands.add(second)
    errands.add(urgent)
    first.may_go.set()
    errands.flush(10)
    assert log == [first, urgent, second]


def test_what_fails_holds_up_nobody(errands: Errands) -> None:
    log: list[Any] = []
    failing, other = Errand(log, fails=True), Errand(log)
    failing.may_go.clear()
    errands.add(failing)
    assert failing.began.wait(10)
    errands.add(other)
    failing.may_go.set()
    wait_until(lambda: log == [other], 10, "the other one is done")
    assert failing.attempts == 1
    wait_until(lambda: failing.given_up, 10, "it is given up")
    assert failing.attempts < 6


# -- what must be sent although nobody releases


@pytest.fixture
def revoked() -> Iterator[Any]:
    yield state.revoked
    state.revoked.clear()


def test_a_sweep_looks_for_the_revoked(store: Store, revoked: Any) -> None:
    found: list[Any] = []
    sweeper = Sweeper(lambda: store, found.append)
    store.set_limit(0, "one")
    parked(store, "b")
    sweeper.sweep()
    assert found == [frozenset()]
    revoked.add("b")
    store.error = StoreUnavailable("hung")
    with pytest.raises(StoreUnavailable):
        sweeper.sweep()
    store.error = None
    sweeper.sweep()
    assert found[1:] == [{"one"}]
    (over,) = store.take(found[1])
    assert over.token == 0
    sweeper.sweep()
    assert store.ended == [["b"], ["b"]], "once, when the store answered"


def test_a_sweep_finds_what_nobody_sent(store: Store) -> None:
    found: list[Any] = []
    three_granted(store)
    Sweeper(lambda: store, found.append).sweep()
    assert found == [{"one"}]


def test_what_a_process_handed_on_is_sent() -> None:
    handed: list[Any] = []
    keeper: Any = SimpleNamespace(discard=lambda _: None)
    ledger = Ledger(keeper, None, None, handed.append)  # type: ignore[arg-type]
    ledger.released("x", frozenset({"one"}))
    assert handed == [{"one"}]


def test_a_note_of_much_that_was_handed_on() -> None:
    """What does not fit is found by a sweep; the release itself must be noted."""
    noted: list[Any] = []
    books: Any = SimpleNamespace(released=lambda *note: noted.append(note))
    pipe = NotePipe()
    pipe.released("x", frozenset({"one"}))
    pipe.released("y", frozenset(f"{n:010}" for n in range(select.PIPE_BUF // 10)))
    assert pipe.drain(books)
    pipe.close()
    assert noted == [("x", frozenset({"one"})), ("y", frozenset())]
