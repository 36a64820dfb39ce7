"""KeptMessages and Prefetch: what is due, and when; on a consumer whose clock and timer the test has."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from functools import partial
from inspect import signature
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery import Celery
from celery.worker import state
from kombu.common import QoS

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.worker.keeping.kept_message import REVOKED_S, CannotKeep, KeptMessage
from celery_semaphore.worker.keeping.kept_messages import RETRY_DELAY_S, KeptMessages
from celery_semaphore.worker.keeping.pool_line import goes_first
from celery_semaphore.worker.keeping.prefetch import Prefetch, restore_in_loop
from celery_semaphore.worker.keeping.redelivery import redelivery_of
from celery_semaphore.worker.keeping.timetable import OLD_ENTRIES
from celery_semaphore.worker.main_process.bootstep import _close_lost
from celery_semaphore.worker.messages.headers import Headers
from celery_semaphore.worker.pool_process.destination import Destination
from celery_semaphore.worker.pool_process.refused_attempt import Refused, RefusedAttempt

from ..requests import kept_for, limited, request_of

TICKETS = {
    "second": Ticket("x", 0, 1795325987266816),
    "first": Ticket("x", 0, 1795325987266815),
    "urgent": Ticket("x", 5, 1795325987266817),
}


class Timer:
    """Celery's, with a clock of its own."""

    def __init__(self) -> None:
        self.now, self.entries = 1000.0, list[tuple[float, Callable[..., None], tuple[Any, ...]]]()

    def call_after(self, delay: float, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.entries.append((self.now + delay, call, args))

    def run(self, seconds: float) -> None:
        """Let time pass, and call what is due at its moment."""
        end = self.now + seconds
        while due := [each for each in self.entries if each[0] <= end]:
            first = min(due, key=lambda each: each[0])
            self.entries.remove(first)
            self.now = max(self.now, first[0])
            first[1](*first[2])
        self.now = end


class Consumer:
    """As much of Celery's as keeping needs."""

    def __init__(self, **conf: Any) -> None:
        self.app = Celery("kept", broker="memory://", set_as_current=False)
        self.app.conf.update(conf)
        self.hub, self.pool, self.timer = object(), None, Timer()
        self.connection_errors, self.channel_errors = (OSError,), ()
        transport = SimpleNamespace(driver_type="amqp")
        self.connection = SimpleNamespace(transport=transport)
        self.task_consumer = SimpleNamespace(channel=object())
        self.qos = QoS(lambda **_: None, 4)
        self.initial_prefetch_count = self.max_prefetch_count = 4
        self._maximum_prefetch_restored = True
        self.begun: list[Any] = []
        self.controller = SimpleNamespace(semaphore=None)
        self.on_task_request: Callable[[Any], object] = self.begun.append


class Request:
    """One that was refused."""

    def __init__(self, c: Consumer, name: str, *, revoked: bool = False) -> None:
        self.id, self.name = name, name
        self.ticket: Ticket | None = None
        self.made_at, self.granted, self.time_start = c.timer.now, False, None
        self.message = SimpleNamespace(
            channel=c.task_consumer.channel, acknowledged=False, reject_log_error=self._reject
        )
        self.returned: list[str] = []
        self.is_revoked, self.is_unstarted = revoked, True
        self.stamped_headers: list[str] = []
        self.fails = False

    def again(self, ticket: Ticket | None) -> Request:
        if self.fails:
            raise ValueError(self.id)
        self.ticket = ticket
        return self

    def revoked(self) -> bool:
        return self.is_revoked

    def revoked_in_line(self) -> bool:
        return self.is_revoked

    def deliver_elsewhere(self) -> None:
        self.returned.append("returned")

    def _reject(self, *_: Any, requeue: bool) -> None:
        assert requeue
        self.returned.append("given back")


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    c = Consumer()
    clock = SimpleNamespace(monotonic=lambda: c.timer.now)
    for each in ("kept_messages", "kept_message", "redelivery", "timetable"):
        monkeypatch.setattr(f"celery_semaphore.worker.keeping.{each}.time", clock)
    monkeypatch.setattr(state, "task_reserved", lambda _: None)
    return c


@pytest.fixture
def messages(c: Consumer) -> KeptMessages:
    return kept_by(c)


def kept_by(
    c: Consumer, in_loop: Callable[[Callable[[], object]], object] = lambda call: call()
) -> KeptMessages:
    """Of a session whose thread was not started."""
    left: list[Ticket] = []
    published: list[tuple[str, float]] = []

    def put_back(request: Any, _: object, delay: float) -> None:
        published.append((request.name, delay))

    redelivery = redelivery_of(c, put_back)
    messages = KeptMessages(
        c,
        redelivery,
        in_loop,
        MemoryStore(),
        leave=lambda ticket, _: left.append(ticket),
        found=lambda _: None,
    )
    messages.published = published  # type: ignore[attr-defined]
    messages.left = left  # type: ignore[attr-defined]
    return messages


def keep(
    messages: KeptMessages, c: Consumer, name: str, due: float, until: float = 900.0, **options: Any
) -> Request:
    request = Request(c, name, **options)
    now, wait = c.timer.now, HeldWait(TICKETS["first"], (Claim("one", None, 1),))
    messages.keep(
        kept_for(
            request, Ticket(f"ticket of {name}", 0, 1), now + due, now + until, now + due, wait
        )
    )
    return request


def begun(c: Consumer) -> list[str]:
    return [each.name for each in c.begun]


def test_each_begins_when_it_is_due(c: Consumer, messages: KeptMessages) -> None:
    for name, due in {"c": 3.0, "a": 1.0, "b": 2.0, "b too": 2.0}.items():
        keep(messages, c, name, due)
    seen = []
    for _ in range(4):
        seen.append(begun(c))
        c.timer.run(1.0)
    assert seen == [[], ["a"], ["a", "b", "b too"], ["a", "b", "b too", "c"]]
    assert c.begun[0].ticket == Ticket("ticket of a", 0, 1)
    assert len(messages) == 0


def test_there_is_one_timer_for_all(c: Consumer, messages: KeptMessages) -> None:
    for n in range(50):
        keep(messages, c, str(n), 10.0 + n)
    assert len(c.timer.entries) == 1
    c.timer.run(30.0)
    assert len(c.timer.entries) == 1
    keep(messages, c, "sooner", 0.5)
    c.timer.run(0.7)
    assert "sooner" in begun(c)
    c.timer.run(5.0)
    assert len(c.timer.entries) == 1, "the one that was set for later sets no other"
    c.timer.run(100.0)
    assert sorted(begun(c)) == sorted([*map(str, range(50)), "sooner"])
    assert c.timer.entries == []


def test_each_raises_the_prefetch_until_it_leaves(c: Consumer, messages: KeptMessages) -> None:
    for n in range(3):
        keep(messages, c, str(n), 1.0 + n)
    assert c.qos.value == 7
    c.timer.run(1.0)
    assert c.qos.value == 6
    c.timer.run(5.0)
    assert c.qos.value == 4


def test_what_is_begun_early_begins_once(c: Consumer, messages: KeptMessages) -> None:
    request = Request(c, "granted")
    kept = kept_for(request, None, c.timer.now + 5.0, c.timer.now + 9.0, 0.0)
    messages.keep(kept)
    messages.begin(kept)
    c.timer.run(20.0)
    assert begun(c) == ["granted"]
    assert (c.qos.value, request.returned) == (4, [])


def test_what_a_release_granted_begins_in_the_loop(c: Consumer) -> None:
    """A process's note may be read in any thread; and what another worker keeps needs no call."""
    calls = list[Callable[[], object]]()
    messages = kept_by(c, calls.append)
    request = keep(messages, c, "granted", 900.0)
    calls.pop()()
    messages.begin_granted(frozenset({"another worker's"}))
    assert calls == []
    messages.begin_granted(frozenset({TICKETS["first"].nonce}))
    assert begun(c) == []
    calls.pop()()
    assert (begun(c), request.granted) == (["granted"], True)
    assert (len(messages), calls) == (0, [])


def test_without_a_loop_it_begins_where_the_timer_begins_a_countdown(
    c: Consumer, messages: KeptMessages
) -> None:
    """With gevent it may wait for a free greenlet there, while the releaser's goes on."""
    c.hub = None
    keep(messages, c, "granted", 900.0)
    messages.begin_granted(frozenset({TICKETS["first"].nonce}))
    assert begun(c) == []
    c.timer.run(0.0)
    assert begun(c) == ["granted"]


@pytest.mark.parametrize("how", ["visit", "forget", "give_back_all"])
def test_what_left_while_another_one_waited_for_a_greenlet_does_not_begin(
    c: Consumer, messages: KeptMessages, how: str
) -> None:
    """With gevent, other greenlets go on while a granted task waits for a free one."""
    c.hub = None
    requests = [keep(messages, c, name, 900.0) for name in ("first", "second")]

    def meanwhile(request: Request) -> None:
        c.on_task_request = c.begun.append
        if how == "visit":
            messages.session._granted.add(TICKETS["first"].nonce)
            messages._visit()
        else:
            getattr(messages, how)()
        c.begun.append(request)

    c.on_task_request = meanwhile
    messages.begin_granted(frozenset({TICKETS["first"].nonce}))
    c.timer.run(0.0)
    assert sorted(begun(c)) == (["first", "second"] if how == "visit" else ["first"])
    assert requests[1].returned == (["given back"] if how == "give_back_all" else [])


def test_where_nothing_may_be_kept_no_grant_is_noted(c: Consumer, messages: KeptMessages) -> None:
    """The broker is not known, or the messages were given back: no answer would replace the notes."""
    messages.give_back_all()
    messages.begin_granted(frozenset({"of another session"}))
    assert messages.session._granted == set()


def test_one_that_was_revoked_needs_no_process(c: Consumer, messages: KeptMessages) -> None:
    """And leaves the line, or the next permit would wait for it."""
    keep(messages, c, "revoked", 1.0, revoked=True)
    keep(messages, c, "other", 1.0)
    c.timer.run(1.0)
    assert begun(c) == ["other"]
    assert c.qos.value == 4
    assert messages.left == [TICKETS["first"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["by its id", "by a stamp"])
def test_a_revoke_ends_it_at_once(
    c: Consumer, messages: KeptMessages, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the loop is visited the next time, although nothing is due."""
    both = [keep(messages, c, name, 900.0) for name in ("revoked", "other")]
    messages._visit()
    assert len(messages) == 2
    if how == "by its id":
        monkeypatch.setattr(state, "revoked", {"revoked"})
    else:
        monkeypatch.setattr(state, "revoked_stamps", {"stamp": ["x"]})
        both[0].stamped_headers = ["stamp"]
    both[0].is_revoked = True
    messages._visit()
    assert len(messages) == 1
    assert messages.left == [TICKETS["first"]]  # type: ignore[attr-defined]
    assert c.qos.value == 5
    assert begun(c) == []


@pytest.mark.parametrize("how", ["expired", "revoked"])
@pytest.mark.parametrize("then", ["goes on", "ends"])
def test_many_that_end_at_once_leave_the_loop_to_others(
    c: Consumer, how: str, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a call of the result backend: 100 in a turn. A shutdown in between returns the others."""
    calls: list[Callable[[], object]] = []
    messages = kept_by(c, calls.append)
    requests = [keep(messages, c, str(n), 1.0, revoked=True) for n in range(250)]
    for call in calls.copy():
        call()
    calls.clear()
    if how == "expired":
        c.timer.run(1.0)
    else:
        monkeypatch.setattr(state, "revoked", {each.id for each in requests})
        messages._visit()
    left: list[Ticket] = messages.left  # type: ignore[attr-defined]
    seen = [len(left)]
    if then == "ends":
        messages.give_back_all()
    while calls:
        calls.pop(0)()
        seen.append(len(left))
    returned = sum(each.returned == ["given back"] for each in requests)
    assert seen[0] == 100
    assert seen[-1] + returned == 250
    assert seen[:3] == ([100, 200, 250] if then == "goes on" else [100, 100])
    assert len(messages) == len(begun(c)) == 0


def test_many_that_are_due_at_once_begin_in_their_order(c: Consumer) -> None:
    calls: list[Callable[[], object]] = []
    messages = kept_by(c, calls.append)
    for n in range(250):
        keep(messages, c, str(n), 1.0 + n / 1000)
    for call in calls.copy():
        call()
    calls.clear()
    c.timer.now += 2.0  # the loop was busy
    c.timer.run(0.0)
    assert len(begun(c)) == 100
    while calls:
        calls.pop(0)()
        c.timer.run(0.0)
    assert begun(c) == [str(n) for n in range(250)]


def test_one_that_cannot_be_run_again_is_the_brokers(
    c: Consumer, messages: KeptMessages, caplog: pytest.LogCaptureFixture
) -> None:
    """And holds up no other."""
    broken = keep(messages, c, "broken", 1.0)
    broken.fails = True
    keep(messages, c, "other", 1.0)
    c.timer.run(1.0)
    assert begun(c) == ["other"]
    assert broken.returned == ["returned"]
    assert "task broken cannot be run again" in caplog.text


def test_what_is_due_later_than_it_may_be_kept_is_given_back(
    c: Consumer, messages: KeptMessages
) -> None:
    late, soon = keep(messages, c, "late", 20.0, 10.0), keep(messages, c, "soon", 9.0, 10.0)
    c.timer.run(10.0)
    assert begun(c) == ["soon"]
    assert (late.returned, soon.returned) == (["given back"], [])
    assert c.qos.value == 4


def test_what_has_left_is_not_given_back(c: Consumer, messages: KeptMessages) -> None:
    """It runs: given back, it would run twice."""
    request = keep(messages, c, "granted", 900.0, until=5.0)
    messages.begin_granted(frozenset({TICKETS["first"].nonce}))
    c.timer.run(10.0)
    assert (begun(c), request.returned) == (["granted"], [])


def test_a_broker_that_takes_nothing_back_is_asked_again(
    c: Consumer, messages: KeptMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = keep(messages, c, "late", 20.0, 10.0)

    def fail(_: Any) -> None:
        raise OSError("away")

    with monkeypatch.context() as patch:
        patch.setattr(messages._redelivery, "give_back", fail)
        c.timer.run(10.0)
    assert (late.returned, c.qos.value, len(messages)) == ([], 5, 1)
    c.timer.run(RETRY_DELAY_S)
    assert (late.returned, c.qos.value, len(messages)) == (["given back"], 4, 0)


def test_at_the_end_all_are_given_back(c: Consumer) -> None:
    """Also one whose refusal the loop has not heard of; none is kept after that."""
    heard: list[Callable[[], object]] = []
    messages = kept_by(c, heard.append)
    first, second = keep(messages, c, "first", 1.0), keep(messages, c, "second", 1.0)
    heard.pop(0)()
    third = keep(messages, c, "third", 1.0)
    messages.give_back_all()
    assert [each.returned for each in (first, second, third)] == [["given back"]] * 3
    with pytest.raises(CannotKeep):
        messages.keep(kept_for(Request(c, "fourth"), None, 0.0, 0.0, 0.0))
    for each in heard:
        each()
    c.timer.run(10.0)
    assert begun(c) == []


def test_they_are_given_back_in_the_order_of_the_line(c: Consumer, messages: KeptMessages) -> None:
    """One without a ticket has no place in it."""
    order: list[str] = []
    for name, due in {"no ticket": 0.5, **dict.fromkeys(TICKETS, 1.0)}.items():
        request = Request(c, name)
        request.message.reject_log_error = lambda *_, name=name, **__: order.append(name)
        messages.keep(
            kept_for(request, TICKETS.get(name), c.timer.now + due, c.timer.now + 9.0, 0.0)
        )
    messages.give_back_all()
    assert order == ["urgent", "first", "second", "no ticket"]


def test_what_a_lost_connection_delivered_is_forgotten(c: Consumer, messages: KeptMessages) -> None:
    lost = keep(messages, c, "lost", 1.0)
    messages.forget()
    assert len(messages) == 0
    with pytest.raises(CannotKeep):
        messages.keep(kept_for(Request(c, "later"), None, 0.0, 0.0, 0.0))
    messages.give_back_all()
    c.timer.run(10.0)
    assert (lost.returned, begun(c)) == ([], [])


def test_it_is_forgotten_before_the_connection_is_closed() -> None:
    """With gevent that may take a while, in which the timer would begin what is delivered again."""
    order: list[str] = []
    kept = SimpleNamespace(forget=lambda: order.append("forgotten"))
    kept.line = list
    lost = SimpleNamespace(note=lambda *_: order.append("noted"))
    worker = SimpleNamespace(kept=kept, lost=lost, connections=0)
    queues = SimpleNamespace(disconnected=lambda: None)
    limiter: Any = SimpleNamespace(worker=worker, queues=queues)
    connection = SimpleNamespace(transport=SimpleNamespace(channels=()))
    c = SimpleNamespace(connection=connection)
    _close_lost(c, limiter, lambda _: order.append("closed"), OSError("lost"))
    assert order == ["forgotten", "noted", "closed"]
    assert worker.connections == 1


def test_it_is_found_by_its_id_while_it_is_kept(c: Consumer, messages: KeptMessages) -> None:
    """By Celery's query_task, which tells an operator the name of a waiting task."""
    first, second = keep(messages, c, "first", 1.0), keep(messages, c, "second", 9.0)
    assert (state.requests["first"], state.requests["second"]) == (first, second)
    c.timer.run(1.0)
    assert "first" not in state.requests
    messages.forget()
    assert "second" not in state.requests


def test_another_thread_only_queues_it(c: Consumer) -> None:
    heard: list[Callable[[], object]] = []
    messages = kept_by(c, heard.append)
    thread = threading.Thread(target=keep, args=(messages, c, "x", 1.0))
    thread.start()
    thread.join()
    assert (len(messages), c.qos.value, c.timer.entries) == (0, 4, [])
    heard[0]()
    assert (len(messages), c.qos.value, len(c.timer.entries)) == (1, 5, 1)


def test_a_timer_of_another_thread_keeps_nothing(c: Consumer) -> None:
    """As Celery's is where its loop has no hub, and no greenlets."""
    c.hub = None
    messages = kept_by(c)
    with pytest.raises(CannotKeep):
        messages.keep(kept_for(Request(c, "x"), None, 0.0, 0.0, 0.0))
    c.pool = SimpleNamespace(is_green=True)  # type: ignore[assignment]
    keep(kept_by(c), c, "y", 1.0)


# -- a quorum queue


@pytest.fixture
def quorum(c: Consumer) -> KeptMessages:
    """Of a prefetch of four, of which two are kept."""
    c.app.conf.task_default_queue_type = "quorum"
    return kept_by(c)


def test_where_the_prefetch_is_full_no_session_asks(
    c: Consumer, quorum: KeptMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is published if it must wait: nothing shall be granted to it meanwhile.

    Those count that are kept, and those that will be if they are refused.
    """
    message = SimpleNamespace(channel=c.task_consumer.channel)
    keep(quorum, c, "first", 9.0)
    assert quorum.session_for(message) == quorum.session.name
    monkeypatch.setattr(
        state, "reserved_requests", [SimpleNamespace(session="another's"), object()]
    )
    assert quorum.session_for(message) == quorum.session.name
    monkeypatch.setattr(state, "reserved_requests", [SimpleNamespace(session=quorum.session.name)])
    assert quorum.session_for(message) == ""


def test_the_prefetch_of_a_quorum_queue_is_not_raised(c: Consumer, quorum: KeptMessages) -> None:
    for name in ("first", "second"):
        keep(quorum, c, name, 9.0)
    assert (len(quorum), c.qos.value) == (2, 4)


@pytest.mark.parametrize("how", ["several queues", "the connection failed"])
def test_what_the_broker_would_copy_is_not_kept(
    c: Consumer, messages: KeptMessages, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked up for a refused task only: a call of the broker for each message would be dear."""

    def takes(_: Any) -> bool:
        if how == "several queues":
            return False
        raise OSError("lost")

    monkeypatch.setattr(messages._redelivery, "takes", takes)
    with pytest.raises(CannotKeep):
        messages.keep(kept_for(Request(c, "copied"), None, 0.0, 900.0, 0.0))
    assert len(messages) == 0


def test_what_a_quorum_queue_gets_back_is_published(c: Consumer, quorum: KeptMessages) -> None:
    """It counts deliveries. It comes when its turn is expected."""
    keep(quorum, c, "a", 0.5)
    c.timer.now += 0.1
    quorum.give_back_all()
    assert quorum.published == [("a", pytest.approx(0.4))]  # type: ignore[attr-defined]


# -- who asks


def test_a_session_asks_for_what_can_be_kept(c: Consumer, messages: KeptMessages) -> None:
    """Nothing is granted to a task whose message is published again: its permit would lie idle."""
    message = SimpleNamespace(channel=c.task_consumer.channel)
    assert messages.session_for(message) == messages.session.name
    assert messages.session_for(SimpleNamespace(channel=object())) == ""
    c.hub = None
    assert kept_by(c).session_for(message) == ""
    messages.forget()
    assert messages.session_for(message) == ""


def test_what_has_left_is_not_kept_until_it_would_act(c: Consumer, messages: KeptMessages) -> None:
    """Which may be in hours, and its message would lie in memory."""
    for n in range(1000):
        keep(messages, c, f"{n}", 900.0)
    for kept in list(messages._messages):
        messages.begin(kept)
    assert len(messages._timetable) <= OLD_ENTRIES


def test_what_could_not_be_handed_over_waits_for_no_process(
    c: Consumer, messages: KeptMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its session would wait for one with it, and ask no more."""
    monkeypatch.setattr(state, "task_reserved", state.reserved_requests.add)
    broken = keep(messages, c, "broken", 900.0)
    c.on_task_request = lambda _: 1 / 0
    (kept,) = messages._messages
    messages.begin(kept, granted=True)
    assert broken.returned == ["returned"]
    assert broken not in state.reserved_requests


def test_a_lost_connection_begins_nothing(c: Consumer) -> None:
    """What its loop has not come to, the next connection's loop does."""
    heard: list[Callable[[], object]] = []
    messages = kept_by(c, heard.append)
    keep(messages, c, "a", 1.0)
    heard.pop()()
    keep(messages, c, "b", 1.0)
    messages.session._granted = {"x"}
    visit = messages._visit
    messages.forget()
    visit()
    for each in heard:
        each()
    c.timer.run(10.0)
    assert (begun(c), len(messages), c.qos.value) == ([], 0, 5)


def test_one_that_arrives_after_the_end_is_not_kept(c: Consumer) -> None:
    """A refusal in another thread was about to queue it: the broker delivers it again."""
    heard: list[Callable[[], object]] = []
    messages = kept_by(c, heard.append)
    keep(messages, c, "a", 1.0)
    late = messages._arrivals.popleft()
    messages.forget()
    messages._arrivals.append(late)
    heard.pop()()
    assert (len(messages), c.qos.value) == (0, 4)


def test_a_backend_that_is_away_breaks_no_loop(
    c: Consumer, messages: KeptMessages, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A revoke is told to it; Celery would take its error for a lost broker, and end the worker for others."""
    monkeypatch.setattr(state, "revoked", {"a", "b"})
    both = [keep(messages, c, name, 900.0) for name in "ab"]
    both[0].revoked = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    both[1].is_revoked = True
    messages._visit()
    assert len(messages) == 1
    assert "but could not be ended" in caplog.text


def test_the_revoked_are_looked_for_now_and_then(
    c: Consumer, messages: KeptMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are kept, and the loop is visited a hundred times in a second."""
    looks: list[object] = []

    class Revoked(set[str]):
        def __contains__(self, task_id: object) -> bool:
            looks.append(task_id)
            return False

    keep(messages, c, "kept", 900.0)
    monkeypatch.setattr(state, "revoked", Revoked({"x"}))
    for _ in range(10):
        messages._visit()
        c.timer.now += REVOKED_S / 5
    assert looks == ["kept", "kept"]


@pytest.mark.parametrize("how", ["forget", "give_back_all"])
def test_a_session_ends_with_its_connection(messages: KeptMessages, how: str) -> None:
    """And asks no more: what it kept is delivered again, perhaps to another worker."""
    getattr(messages, how)()
    assert messages.session._ended


def test_what_was_granted_is_before_all_that_was_not(c: Consumer, messages: KeptMessages) -> None:
    """Of those that wait for a process; and behind what was granted before."""
    line: list[tuple[object, list[Any]]] = []
    c.controller = SimpleNamespace(semaphore=SimpleNamespace(_waiting=line))
    c.on_task_request = lambda request: line.append((None, [request]))
    c.on_task_request(Request(c, "unlimited"))
    for name, granted in {"due": False, "first": True, "second": True}.items():
        request = keep(messages, c, name, 900.0)
        (kept,) = (each for each in messages._messages if cast("Any", each.request) is request)
        messages.begin(kept, granted=granted)
    by_queue = Request(c, "by a granted queue")
    by_queue.message.channel = object()
    goes_first(c, lambda: c.on_task_request(by_queue))
    names = [each[1][0].name for each in line]
    assert names == ["first", "second", "by a granted queue", "unlimited", "due"]


def test_what_was_granted_does_not_stop_all_others(c: Consumer) -> None:
    """A task without a limit goes after ten of them, though each that ends brings the next one."""
    line: list[tuple[object, list[Any]]] = []
    c.controller = SimpleNamespace(semaphore=SimpleNamespace(_waiting=line))
    c.on_task_request = lambda request: line.append((None, [request]))
    for name in ("unlimited", "another"):
        c.on_task_request(Request(c, name))
    for n in range(25):
        request = Request(c, f"granted {n}")
        request.granted = True
        goes_first(c, partial(c.on_task_request, request))
    names = [each[1][0].name for each in line]
    assert [names.index(name) for name in ("unlimited", "another")] == [10, 21]
    assert [name for name in names if "granted" in name] == [f"granted {n}" for n in range(25)]


# -- the prefetch


def test_the_prefetch_is_raised_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery_semaphore.worker.keeping.prefetch.MAX_RAISED_MESSAGES", 2)
    c = Consumer()
    prefetch = Prefetch(c)
    assert [prefetch.increase() for _ in range(3)] == [True, True, False]
    prefetch.decrease()
    assert prefetch.increase()
    assert c.qos.value == 6


@pytest.mark.skipif(
    "max_prefetch" not in signature(QoS).parameters, reason="Celery 5.5 knows no such bound"
)
def test_celerys_bound_comes_first() -> None:
    """It bounds the whole prefetch, and what was not raised must not be lowered later."""
    c = Consumer(worker_eta_task_limit=6)
    c.qos = QoS(lambda **_: None, 4, 6)
    prefetch = Prefetch(c)
    assert [prefetch.increase() for _ in range(3)] == [True, True, False]


def test_celerys_bound_comes_first_without_celery() -> None:
    """Celery 5.5 does not know its setting, and raises on."""
    prefetch = Prefetch(Consumer(worker_eta_task_limit=2))
    assert [prefetch.increase() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("told", ["should_stop", "should_terminate"])
def test_a_worker_that_ends_restores_no_prefetch(
    monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """Nor does the thread that acknowledges: the loop does, when it comes to it."""
    c, restored, in_loop = Consumer(), list[Any](), list[Any]()
    c._restore_prefetch_count_after_connection_restart = restored.append  # type: ignore[attr-defined]
    restore_in_loop(c, in_loop.append)
    for _ in range(2):
        c._restore_prefetch_count_after_connection_restart("an answer")  # type: ignore[attr-defined]
    assert not restored
    in_loop.pop()()
    assert restored == [None]
    monkeypatch.setattr(state, told, 0)
    in_loop.pop()()
    assert restored == [None]


def test_a_connection_that_is_lost_meanwhile_is_noticed_elsewhere() -> None:
    c, in_loop = Consumer(), list[Any]()

    def lost(_: Any) -> None:
        raise ConnectionResetError

    c._restore_prefetch_count_after_connection_restart = lost  # type: ignore[attr-defined]
    restore_in_loop(c, in_loop.append)
    c._restore_prefetch_count_after_connection_restart()  # type: ignore[attr-defined]
    in_loop.pop()()


def test_a_prefetch_without_a_bound_stays_so() -> None:
    c = Consumer()
    c.qos = QoS(lambda **_: None, 0)
    assert not Prefetch(c).increase()
    assert c.qos.value == 0


def test_the_slow_start_ends_with_the_first_one() -> None:
    """Else Celery takes a value that counts kept messages for the full prefetch."""
    c = Consumer()
    c.initial_prefetch_count, c._maximum_prefetch_restored = 1, False
    c.qos = QoS(lambda **_: None, 1)
    prefetch = Prefetch(c)
    assert prefetch.increase()
    assert (c.qos.value, c.initial_prefetch_count, c._maximum_prefetch_restored) == (5, 4, True)
    assert prefetch.increase()
    prefetch.decrease()
    prefetch.decrease()
    assert c.qos.value == 4


# -- the fresh request


def test_a_fresh_request_is_of_the_same_message() -> None:
    """It names the ticket, begins at once, and is another holder; the message is answered once."""
    app = Celery("fresh", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    eta = "2030-01-01T00:00:00+00:00"
    first = request_of(limited(app), eta=eta, mine="1")
    answers: list[str] = []
    first._since = 5.0
    first._on_ack = lambda *_: answers.append("ack")
    first._on_reject = lambda *_: answers.append("reject")
    second = first.again(TICKETS["first"])
    assert type(second) is type(first)
    assert second.message is first.message
    assert (first.eta is None, second.eta) == (False, None)
    assert second.holder != first.holder
    assert second.request_dict["semaphore_kept_ticket"] == "255.1795325987266815.x"
    assert second.request_dict["semaphore_holder"] == second.holder
    assert second.request_dict["mine"] == "1"
    assert second._message_id == first._message_id
    assert second._since == 5.0, "when the broker delivered it"
    assert "semaphore_kept_ticket" not in first.again(None).request_dict
    third = second.again(None)
    assert "semaphore_kept_ticket" not in third.request_dict
    third.acknowledge()
    second.reject(requeue=True)
    first.acknowledge()
    assert answers == ["ack"]


@pytest.mark.parametrize("in_line", [True, False])
def test_only_one_that_stands_in_a_line_waits_for_its_grant(in_line: bool) -> None:
    """The others are tried again when they are due: a copy of a task that runs, or one that no store was asked for."""
    app = Celery("kept", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    request, kept = request_of(limited(app)), list[KeptMessage]()
    request._request_dict["semaphore_session"] = "s"
    request._limiter.worker.kept = SimpleNamespace(keep=kept.append)
    attempt = RefusedAttempt(
        reason="why",
        why=Reason.SATURATED,
        destination=Destination.IN_LINE if in_line else Destination.KEPT,
        delay=5.0,
        ticket=TICKETS["first"],
        claims=(Claim("one", None, 1),),
    )
    request._since = 5.0
    request._keep(pickle.loads(pickle.dumps(Refused(attempt))).attempt)  # noqa: S301 - ours
    (one,) = kept
    assert (one.due == inf, one.wait is not None) == (in_line, in_line)
    assert one.keep_until == 5.0 + request._limiter.settings.longest_keeping, "since its delivery"


def test_a_place_that_a_sender_wrote_is_ignored() -> None:
    app = Celery("forged", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    request = request_of(limited(app), semaphore_kept_ticket=TICKETS["first"])
    assert "semaphore_kept_ticket" not in request.request_dict


def test_no_retry_inherits_the_place() -> None:
    """Celery sends along what it finds in a request's headers."""
    app = Celery("retried", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    task = limited(app)
    again = request_of(task).again(TICKETS["first"])
    task.push_request(**again.request_dict, semaphore_session="s", called_directly=False)
    try:
        headers = Headers.taken_from(task.request, 60.0)
        left = {**task.request.__dict__, **task.request.headers}
    finally:
        task.pop_request()
    assert (headers.ticket, headers.session) == (TICKETS["first"], "s")
    assert not {"semaphore_kept_ticket", "semaphore_session"} & left.keys()
    again.permit_held(0.0)
    assert "semaphore_kept_ticket" not in again.request_dict
