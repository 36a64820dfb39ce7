"""Messages on their way into the store and out of it, without workers: see tests/mutants/worker_messages.py."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.settings import Settings
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.worker.messages.bring_back import BringBack
from celery_semaphore.worker.messages.brokers import Brokers
from celery_semaphore.worker.messages.consumed_queues import ConsumedQueues
from celery_semaphore.worker.messages.job import CannotPark, RetryLater
from celery_semaphore.worker.messages.message import publish_arguments
from celery_semaphore.worker.messages.park import Park
from celery_semaphore.worker.messages.parked import packed, unpacked
from celery_semaphore.worker.messages.publisher import Publisher, Returned
from celery_semaphore.worker.messages.put_back import PutBack
from celery_semaphore.worker.messages.route import Route
from celery_semaphore.worker.messages.ticket_header import Carried, sent_back

ONE = Claim("one", None, 1)
OF_X = Ticket("x:0", 0, 1_700_000_000_000_000)
SENT = sent_back("x:0", 1, None, 1)  # the header of a message that went back once


def a_message(**more: Any) -> Any:
    fields = {"body": b"[]", "headers": {"id": "x"}, "properties": {}}
    return SimpleNamespace(
        **{**fields, "content_type": "application/json", "content_encoding": "utf-8", **more}
    )


def published(publisher: Publisher) -> bool:
    """Publish a message, if the broker is not known to be away."""
    try:
        publisher.publish(a_message(), "celery", header=SENT)
    except RetryLater:
        return False
    return True


class Request:
    """Was refused; remembers what became of it."""

    id, name, holder, refusals = "x", "task", "x:0123", 3
    semaphores = ("one",)

    def __init__(self, *, may_be_moved: bool = True) -> None:
        self.message, self.said = a_message(), list[str]()
        self._may_be_moved = may_be_moved

    def came_from(self) -> str:
        return "celery"

    def comes_back_to(self) -> str:
        return "celery.granted"

    def may_be_moved(self) -> bool:
        return self._may_be_moved

    def parks(self) -> bool:
        return True

    def on_put_back(self) -> None:
        self.said.append("went back")

    def on_parked(self) -> None:
        self.said.append("was parked")

    def on_not_parked(self, error: SemaphoreError) -> None:
        raise AssertionError(error)

    def return_to_broker(self) -> None:
        self.said.append("returned")


class Broker:
    """In place of a publisher: has what was published, or raises what the test wants."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.queues, self.declared = list(errors), list[str](), list[str]()
        self.headers: list[str] = []
        self.away = False

    def check(self) -> None:
        if self.away:
            raise RetryLater("away", 1.0)

    def publish(self, _: Any, queue: str, *, header: str, delay: float = 0.0) -> None:
        self.headers.append(header)
        if self.errors and (error := self.errors.pop(0)):
            raise error
        self.queues.append(queue)

    def declare(self, queue: str) -> None:
        self.declared.append(queue)


class Store(MemoryStore):
    """Remembers what it was told was sent; fails when the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Ticket] = []
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

    def sent(self, grants: Any, *, arrive: bool = True) -> None:
        self.told += [grant.ticket for grant in grants]
        super().sent(grants, arrive=arrive)


@pytest.fixture
def store() -> Store:
    return Store()


def refused(store: MemoryStore, holder: str) -> Ticket:
    answer = store.acquire([ONE], holder, Wait(Kind.PARK))
    assert isinstance(answer, Refusal)
    assert answer.ticket
    return answer.ticket


def parked(store: MemoryStore, holder: str) -> Ticket:
    ticket = refused(store, holder)
    store.attach(ticket, [ONE], packed(a_message(), "celery", "celery.granted", 2), name=holder)
    return ticket


# -- into the store


def park(store: MemoryStore, request: Request, largest: int = 1000) -> list[str]:
    """Park it, and return what must be sent now."""
    outgoing: list[str] = []
    store.set_limit(0, "one")
    ticket = refused(store, "x")
    Park(
        store,
        request,
        ticket,
        [ONE],
        delay=1.0,
        ends_in=None,
        largest=largest,
        longest=60.0,
        broker="",
        outgoing=outgoing.extend,
    ).run()
    return outgoing


def test_a_message_is_acknowledged_when_the_store_has_it(store: Store) -> None:
    request = Request()
    assert park(store, request) == []
    assert request.said == ["was parked"]
    request, store.error = Request(), ValueError("no")
    with pytest.raises(ValueError, match="no"):
        park(store, request)
    assert request.said == []


def test_what_the_store_cannot_take_goes_to_its_queue(store: Store) -> None:
    request, store.error = Request(), StoreUnavailable("hung")
    with pytest.raises(CannotPark, match="hung"):
        park(store, request)
    assert request.said == [], "the mover decides: see test_copies.py"


def test_what_is_too_large_goes_to_its_queue(store: Store) -> None:
    text = "its message takes 211 bytes, and semaphore_park_max_size is 10"
    with pytest.raises(CannotPark, match=text):
        park(store, Request(), largest=10)


def test_what_the_store_would_keep_less_safely_by_now_is_not_attached(store: Store) -> None:
    """A process may have tried it long after it was received: the store may keep nothing by now."""
    request, store.error = Request(), AssertionError("it was attached")
    request.parks = lambda: False  # type: ignore[method-assign]
    with pytest.raises(CannotPark):
        park(store, request)
    assert request.said == []


def test_what_a_lost_connection_delivered_is_not_parked(store: Store) -> None:
    assert park(store, Request(may_be_moved=False)) == []
    store.set_limit(None, "one")
    assert store.take(frozenset({"one"})) == []


def test_who_was_revoked_meanwhile_is_looked_for_again(store: Store, revoked: Any) -> None:
    """A sweep between the refusal and the attaching found nothing, and will not come again."""
    revoked.add("x")
    assert park(store, Request()) == ["one"]
    (over,) = store.take(frozenset({"one"}))
    assert over.token == 0


def test_a_message_comes_out_as_it_went_in() -> None:
    message = a_message(
        body=b"\x80\xff\n[]",
        headers={"id": "x", "compression": "application/x-gzip"},
        properties={"expiration": "90000", "priority": 3, "delivery_tag": "1"},
    )
    found = unpacked(packed(message, "celery", "celery.granted", 2))
    assert (found.queue, found.way, found.refusals) == ("celery", "celery.granted", 2)
    assert (found.body, found.headers) == (message.body, message.headers)
    sent = publish_arguments(found, route=Route("", "celery"), header="t", delay=0.0)
    assert (sent["expiration"], sent["priority"]) == (90.0, 3)
    assert "delivery_tag" not in sent
    text = unpacked(packed(a_message(body="[]"), "celery", "celery", 2))
    assert text.body == "[]"


# -- and out of it


BOTH = frozenset({"celery", "celery.granted"})


def bring_back(
    store: MemoryStore,
    broker: Broker,
    consumed: Collection[str] = BOTH,
    sent_to: Callable[[str], object] = str,
) -> BringBack:
    """Send what is granted; another worker consumes these queues."""
    store.consume("another", consumed, BOTH - set(consumed))
    queues = ConsumedQueues(lambda: store)
    app = Celery("here", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return BringBack(
        store,
        broker,  # type: ignore[arg-type]
        frozenset({"one"}),
        queues=queues,
        brokers=Brokers(app, Settings.from_app(app), lambda: store),
        found=lambda _: None,
        sent_to=sent_to,
    )


def three_granted(store: MemoryStore) -> list[Ticket]:
    store.set_limit(0, "one")
    tickets = [parked(store, holder) for holder in "abc"]
    store.set_limit(3, "one")
    return tickets


def test_a_queue_is_watched_after_an_error_too() -> None:
    """The message may have arrived, and only its confirm was lost."""
    store, watched = Store(), list[str]()
    three_granted(store)
    job = bring_back(store, Broker(OSError("no confirm")), sent_to=watched.append)
    with pytest.raises(OSError, match="no confirm"):
        job.run()
    assert watched == ["celery"]
    away = list[str]()
    bring_back(store, Broker(), {"celery"}, sent_to=away.append).run()
    assert not away, "it went to its own queue"


def test_the_store_is_told_what_the_broker_has(store: Store) -> None:
    """And not what it has not, which is sent at the next attempt, after the others."""
    tickets, broker = three_granted(store), Broker(None, ConnectionError("gone"))
    job = bring_back(store, broker)
    with pytest.raises(ConnectionError):
        job.run()
    assert store.told == tickets[:1]
    job.run()
    assert store.told == [tickets[0], tickets[2], tickets[1]]
    assert len(broker.queues) == 3


def named(broker: Broker) -> list[tuple[str, ...]]:
    """The resources at which a grant is kept for each message, as its header names them."""
    carried = [Carried.read(header) for header in broker.headers]
    return [each.resources for each in carried if each]


def test_without_granted_queues_it_comes_by_its_own(store: Store) -> None:
    """They were turned off while it was parked; its permit is kept for it."""
    three_granted(store)
    broker = Broker()
    bring_back(store, broker, ["celery"]).run()
    assert broker.queues == ["celery"] * 3
    assert named(broker) == [("one",)] * 3
    assert len(store.snapshot("one").holders) == 3


def test_without_a_worker_it_goes_home_without_its_permit(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    tickets, broker = three_granted(store), Broker()
    bring_back(store, broker, []).run()
    assert broker.queues == ["celery"] * 3
    assert named(broker) == [()] * 3, (
        "else a worker that discards one would release it by its ticket"
    )
    assert store.told == tickets
    assert not list(store.snapshot("one").holders), "the permits go to others"
    assert store.snapshot("one").waiting == 0
    (warned,) = caplog.messages
    assert warned.startswith("no worker consumes queue 'celery'")


def test_the_next_in_line_gets_the_permit_at_once(store: Store) -> None:
    three_granted(store)
    store.set_limit(1, "one")
    later = parked(store, "later")
    found: list[str] = []
    job = bring_back(store, Broker(), [])
    job._found = found.extend
    job.run()
    assert found == ["one"]
    (grant,) = store.take(frozenset(found))
    assert grant.ticket == later


def test_one_that_goes_home_keeps_its_place(store: Store) -> None:
    """It came first, and is admitted before one that came later and waits in the store."""
    tickets, broker = three_granted(store), Broker()
    bring_back(store, broker, []).run()
    store.set_limit(0, "one")
    parked(store, "later")
    assert isinstance(store.acquire([ONE], "a2", Wait(Kind.PARK, tickets[0])), Refusal)
    store.attach(tickets[0], [ONE], packed(a_message(), "celery", "celery.granted", 2), name="a")
    store.set_limit(1, "one")
    (grant,) = store.take(frozenset({"one"}))
    assert grant.ticket == tickets[0]


def test_one_that_was_ended_needs_no_worker(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """It has no permit; the worker that gets it one day learns that it was revoked."""
    store.set_limit(0, "one")
    parked(store, "a")
    store.end(["a"])
    broker = Broker()
    bring_back(store, broker, []).run()
    assert broker.queues == ["celery"]
    assert not caplog.messages


def test_who_has_no_queue_any_more_goes_to_its_own(store: Store) -> None:
    three_granted(store)
    broker = Broker(Returned("no queue"))
    bring_back(store, broker).run()
    assert broker.declared == [], (
        "it may have been declared with arguments that this app does not know"
    )
    assert broker.queues == ["celery", "celery.granted", "celery.granted"]


def test_its_own_queue_is_declared_if_it_is_gone_too(store: Store) -> None:
    three_granted(store)
    broker = Broker(Returned("no granted queue"), Returned("no queue"))
    bring_back(store, broker).run()
    assert broker.declared == ["celery"]
    assert broker.queues == ["celery", "celery.granted", "celery.granted"]


def test_what_cannot_be_sent_is_left_to_others(store: Store) -> None:
    three_granted(store)
    broker = Broker()
    broker.away = True
    with pytest.raises(RetryLater):
        bring_back(store, broker).run()
    assert len(store.take(frozenset({"one"}))) == 3


def test_each_that_is_brought_back_is_another_message(store: Store) -> None:
    """If the same one is brought twice the second is a copy."""
    three_granted(store)
    broker = Broker()
    bring_back(store, broker).run()
    assert len({header.split(" ")[1] for header in broker.headers}) == 3


def test_each_attempt_is_another_message() -> None:
    """One that was not confirmed may have arrived."""
    broker, request = Broker(ConnectionError("gone")), Request()
    job = PutBack(broker, request, OF_X, 1.0, longest=60.0)  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        job.run()
    job.run()
    assert broker.headers == [f"1 0123.1 3  {OF_X}", f"1 0123.2 3  {OF_X}"]
    assert request.said == ["went back"]


@pytest.mark.rabbitmq
def test_a_message_that_no_queue_takes_comes_back(rabbitmq_url: str) -> None:
    publisher = Publisher(Celery("waits", broker=rabbitmq_url, set_as_current=False), 5.0)
    with pytest.raises(Returned):
        publisher.publish(a_message(), "no such queue", header=SENT)
    publisher.declare("there is one")
    publisher.publish(a_message(), "there is one", header=SENT)
    publisher.disconnect()
