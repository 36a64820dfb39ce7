"""Scheduler and sweeps, without workers: who goes first, who fails, and what is looked for."""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery

from celery_semaphore.core.store import HandedOn
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.worker.messages.bring_back import BringBack
from celery_semaphore.worker.messages.job import RetryLater
from celery_semaphore.worker.messages.own_queue import Unroutable
from celery_semaphore.worker.messages.park import Park
from celery_semaphore.worker.messages.publisher import Publisher, Returned
from celery_semaphore.worker.messages.put_back import PutBack
from celery_semaphore.worker.messages.scheduler import Scheduler, pause_after
from celery_semaphore.worker.messages.sweeper import Sweeper
from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.note import NotePipe
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

from ..requests import nothing
from .test_waiting import SENT, Store, a_message, parked, published, three_granted

ONE_HANDED_ON = HandedOn(frozenset({"one"}), frozenset({"a wait"}))


class Job:
    name = "a job"

    def __init__(self, log: list[Any], *, urgent: bool = False, fails: bool = False) -> None:
        self.log, self.urgent, self.fails = log, urgent, fails
        self.attempts, self.given_up, self.lasting = 0, False, 0.0
        self.error: Exception = ValueError("not yet")
        self.may_go, self.began = threading.Event(), threading.Event()
        self.may_go.set()

    def run(self) -> None:
        self.attempts += 1
        self.began.set()
        self.may_go.wait(10)
        if self.fails:
            raise self.error
        self.log.append(self)

    def lasts(self, error: Exception, tried_for: float) -> bool:
        assert error is self.error
        return tried_for < self.lasting

    def on_give_up(self) -> None:
        self.given_up = True


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    scheduler = Scheduler(1.0, lambda: None, lambda: None, lambda *_: None)
    yield scheduler
    scheduler.close(1.0)


def test_the_urgent_goes_first(scheduler: Scheduler) -> None:
    """A permit is kept for what is brought back; nobody waits for what is put back."""
    assert BringBack.urgent
    assert not PutBack.urgent
    log: list[Any] = []
    first, second, urgent = Job(log), Job(log), Job(log, urgent=True)
    first.may_go.clear()
    scheduler.add(first)
    assert first.began.wait(10)
    scheduler.add(second)
    scheduler.add(urgent)
    first.may_go.set()
    scheduler.flush(10)
    assert log == [first, urgent, second]


def test_what_fails_holds_up_nobody(scheduler: Scheduler) -> None:
    log: list[Any] = []
    failing, other = Job(log, fails=True), Job(log)
    failing.may_go.clear()
    scheduler.add(failing)
    assert failing.began.wait(10)
    scheduler.add(other)
    failing.may_go.set()
    wait_until(lambda: log == [other], 10, "the other one is done")
    assert failing.attempts == 1
    wait_until(lambda: failing.given_up, 10, "it is given up")
    assert failing.attempts < 6


def test_the_end_waits_in_bounds(scheduler: Scheduler) -> None:
    """For a job that waits for a broker."""
    log: list[Any] = []
    job = Job(log)
    job.may_go.clear()
    scheduler.add(job)
    assert job.began.wait(10)
    scheduler.close(0.1)
    assert not log
    job.may_go.set()


def test_what_was_not_even_tried_is_no_attempt() -> None:
    """It is worth one in so many seconds; only those that fail make the next one later."""
    scheduler = Scheduler(3.0, lambda: None, lambda: None, lambda *_: None)
    job = Job([], fails=True)
    job.error = RetryLater("the broker is away", 0.2)
    scheduler.add(job)
    wait_until(lambda: job.given_up, 10, "it is given up")
    scheduler.close(1.0)
    assert 7 < job.attempts <= 17


def test_what_lasts_is_not_given_up(scheduler: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    """And says so once, however often it fails."""
    scheduler._timeout = 0.1
    lasting, other = Job([], fails=True), Job([], fails=True)
    lasting.lasting = 60.0
    with caplog.at_level(logging.WARNING):
        scheduler.add(lasting)
        wait_until(lambda: lasting.attempts > 2, 10, "it is tried again and again")
        scheduler.add(other)
        wait_until(lambda: other.given_up, 10, "the other one is given up")
    assert not lasting.given_up
    assert sum(": not yet, " in each.message for each in caplog.records) == 2, "one line for each"


def test_a_flush_waits_for_no_pause(scheduler: Scheduler) -> None:
    job = Job([], fails=True)
    job.error = RetryLater("the broker is away", 60.0)
    scheduler.add(job)
    wait_until(lambda: job.attempts == 1 and scheduler._entries, 10, "it pauses")
    job.fails = False
    began = time.monotonic()
    scheduler.flush(20)
    assert time.monotonic() - began < 10
    assert job.log == [job]


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [pause_after(attempts) for attempts in (0, 1, 2, 3, 10, 100_000)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 5.0, 5.0]


def test_what_lasts_for_a_time_is_given_up_then(scheduler: Scheduler) -> None:
    scheduler._timeout = 0.1
    job = Job([], fails=True)
    job.lasting = 1.0
    scheduler.add(job)
    wait_until(lambda: job.given_up, 10, "it is given up")
    assert job.attempts > 2


@pytest.mark.parametrize("job", [PutBack, Park])
def test_a_message_is_kept_unless_it_has_no_way_back(job: Any) -> None:
    """Nor for so long that the broker ends its channel, which ends the worker."""
    own = job.__new__(job)
    own.longest = 450.0
    assert own.lasts(OSError("the broker is away"), 449.0)
    assert own.lasts(Returned("its queue is gone"), 60.0)
    assert not own.lasts(Unroutable("which queue?"), 60.0)
    assert not own.lasts(OSError("the broker is away"), 451.0)


def test_what_is_brought_back_is_let_go_of() -> None:
    """The store offers it again, to any worker."""
    assert not BringBack.__new__(BringBack).lasts(OSError("the broker is away"), 11.0)


def test_a_broker_that_hangs_holds_up_one_message(
    valkey: RedisServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """The others do not wait for its time-outs, one after the other."""
    proxy = start_proxy(valkey.port)
    app = Celery("away", broker=f"redis://127.0.0.1:{proxy.port}/0", set_as_current=False)
    publisher = Publisher(app, 1.0)
    publisher.publish(a_message(), "celery", header=SENT)
    proxy.hang()
    with pytest.raises(RetryLater) as first:
        publisher.publish(a_message(), "celery", header=SENT)
    assert isinstance(first.value.__cause__, redis.TimeoutError)
    began = time.monotonic()
    for _ in range(100):
        with pytest.raises(RetryLater) as refused:
            publisher.publish(a_message(), "celery", header=SENT)
    assert time.monotonic() - began < 0.5
    assert 0 < refused.value.left <= 1
    proxy.restore()
    wait_until(lambda: published(publisher), 10, "it is asked again")
    publisher.disconnect()


# -- what must be sent although nobody releases


@pytest.fixture
def store() -> Store:
    return Store()


def sweeper_of(store: Store, found: list[Any]) -> Sweeper:
    return Sweeper(lambda: store, found.append, sessions=lambda: 1, also=nothing, say=nothing)


def test_a_sweep_looks_for_the_revoked(store: Store, revoked: Any) -> None:
    found: list[Any] = []
    sweeper = sweeper_of(store, found)
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
    sweeper_of(store, found).sweep()
    assert found == [{"one"}]


def test_what_a_process_handed_on_is_sent() -> None:
    handed: list[Any] = []
    keeper: Any = SimpleNamespace(discard=lambda _: None)
    ledger = Ledger(keeper, None, None, handed.append)  # type: ignore[arg-type]
    ledger.released("x", ONE_HANDED_ON)
    assert handed == [ONE_HANDED_ON]


def test_a_note_of_much_that_was_handed_on() -> None:
    """What does not fit is found by a sweep and a question; the release itself must be noted."""
    noted: list[Any] = []
    observer: Any = SimpleNamespace(released=lambda *note: noted.append(note))
    pipe = NotePipe()
    many = frozenset(f"{n:010}" for n in range(select.PIPE_BUF // 10))
    pipe.released("x", ONE_HANDED_ON)
    pipe.released("y", HandedOn(many))
    pipe.released("z", HandedOn(ONE_HANDED_ON.outgoing, many))
    assert pipe.drain(observer)
    pipe.close()
    assert noted == [
        ("x", ONE_HANDED_ON),
        ("y", HandedOn()),
        ("z", HandedOn(ONE_HANDED_ON.outgoing)),
    ]
