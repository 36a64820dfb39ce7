"""Early acks: one timer reads the notes for all tasks of a moment, and no longer than one of them is due."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from celery import Celery
from kombu.asynchronous import Hub as Loop
from kombu.asynchronous.timer import Timer

from celery_semaphore.core.events import PermitAcquiredEvent
from celery_semaphore.core.permit import Permit
from celery_semaphore.testing import Clock
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.permits.early_acks import DROPPED_S, LONGEST_S, PERIOD_S, EarlyAcks
from celery_semaphore.worker.permits.note import NotePipe
from tests.support.process import wait_until
from tests.support.rabbit import Rabbit
from tests.worker.conftest import Site
from tests.worker.requests import limited, request_of


class Hub:
    """Collects timers; the test fires them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.timers: list[Callable[[], object]] = []

    def call_later(self, seconds: float, call: Callable[[], object]) -> None:
        assert seconds == PERIOD_S
        self.timers.append(call)

    def fire(self) -> None:
        self.clock.now += PERIOD_S
        timers, self.timers = self.timers, []
        for call in timers:
            call()


class Request:
    ack_is_due = True


class Acks:
    """Early acks with a hub whose timers a test fires."""

    def __init__(self) -> None:
        self.reads = 0
        self.clock = Clock()
        self.hub = Hub(self.clock)
        self.acks = EarlyAcks(self.read, self.clock)
        self.acks.serve(self.hub)

    def read(self) -> None:
        self.reads += 1


@pytest.fixture
def early() -> Acks:
    return Acks()


def test_one_timer_reads_for_all_tasks_of_a_moment(early: Acks) -> None:
    requests = [Request() for _ in range(3)]
    for request in requests:
        early.acks.expect(request)
    assert len(early.hub.timers) == 1
    for request in requests:
        request.ack_is_due = False
    early.hub.fire()
    assert (early.reads, early.hub.timers) == (1, [])


def test_it_reads_on_while_one_is_due(early: Acks) -> None:
    """Its permit may come late, and those of others before."""
    slow, fast = Request(), Request()
    early.acks.expect(slow)
    early.acks.expect(fast)
    fast.ack_is_due = False
    for _ in range(3):
        early.hub.fire()
    assert (early.reads, len(early.hub.timers)) == (3, 1)
    slow.ack_is_due = False
    early.hub.fire()
    assert early.hub.timers == []
    early.acks.expect(Request())
    assert len(early.hub.timers) == 1, "the next task is read for"


def test_it_does_not_read_for_ever(early: Acks) -> None:
    """While a store hangs, or if no end of a task is ever reported."""
    early.acks.expect(Request())
    for _ in range(round(LONGEST_S / PERIOD_S) + 1):
        early.hub.fire()
    assert early.hub.timers == []


def test_what_is_not_due_sets_no_timer(early: Acks) -> None:
    """Its permit was noted before its acceptance was read."""
    told = Request()
    told.ack_is_due = False
    early.acks.expect(told)
    assert early.hub.timers == []


def test_no_timer_without_a_hub() -> None:
    acks = EarlyAcks(lambda: None)
    acks.expect(Request())


def test_a_timer_that_was_dropped_is_set_again(early: Acks) -> None:
    """Celery drops timers with a lost connection."""
    early.acks.expect(Request())
    early.hub.timers.clear()
    early.acks.expect(Request())
    assert early.hub.timers == []
    early.clock.now += PERIOD_S + DROPPED_S
    early.acks.expect(Request())
    assert len(early.hub.timers) == 1


def test_a_timer_that_comes_late_after_all_adds_none(early: Acks) -> None:
    """As of a loop that stood still: else two timers would read from then on."""
    early.acks.expect(Request())
    early.clock.now += PERIOD_S + DROPPED_S
    early.acks.expect(Request())
    assert len(early.hub.timers) == 2
    early.hub.fire()
    assert (early.reads, len(early.hub.timers)) == (1, 1)


def test_a_closed_one_sets_no_timer(early: Acks) -> None:
    """Its hub ended with its worker; another worker in this process may have none."""
    early.acks.expect(Request())
    early.acks.close()
    early.hub.fire()
    early.acks.expect(Request())
    assert early.hub.timers == []


def test_the_next_worker_of_a_process_reads_at_once(early: Acks) -> None:
    """Whatever timer the last one had set."""
    early.acks.expect(Request())
    early.acks.close()
    hub = Hub(early.clock)
    early.acks.serve(hub)
    early.acks.expect(Request())
    assert len(hub.timers) == 1


def test_a_worker_that_ends_closes_them(app: Celery) -> None:
    limiter, hub = limiter_of(app), Hub(Clock())
    limiter.early_acks.serve(hub)
    limiter.close(1, flush=1)
    limiter.early_acks.expect(Request())
    assert hub.timers == []


@pytest.mark.parametrize("acks_late", [False, True])
def test_an_ack_is_due_until_the_permit_is_noted(app: Celery, *, acks_late: bool) -> None:
    request = accepted(app, acks_late=acks_late)
    assert request.ack_is_due is not acks_late
    permit = Permit(request.holder, 1, (), 0.0, 30.0, 1)
    limiter_of(app).process.ledger.held(PermitAcquiredEvent(permit), 0.0)
    assert request.acknowledged is not acks_late
    assert not request.ack_is_due


def test_no_ack_is_due_after_an_end(app: Celery) -> None:
    """A refusal, or a process that died, has its message go elsewhere."""
    request = accepted(app)
    limiter_of(app).process.ledger.refused(request.holder)
    assert not request.acknowledged
    assert not request.ack_is_due


def test_no_ack_is_due_after_the_note_although_another_reply_was_sent(app: Celery) -> None:
    """As to a message that was left to the broker, or goes on by another request: nothing more is to be read."""
    request = accepted(app)
    request._reply.take()
    assert request.ack_is_due
    permit = Permit(request.holder, 1, (), 0.0, 30.0, 1)
    limiter_of(app).process.ledger.held(PermitAcquiredEvent(permit), 0.0)
    assert not request.acknowledged
    assert not request.ack_is_due


def accepted(app: Celery, **options: Any) -> Any:
    """A request that a process has just accepted, in a worker whose timers never fire."""
    hub = Hub(Clock())
    limiter_of(app).early_acks.serve(hub)
    request = request_of(limited(app, **options))
    request._on_ack = lambda *_: None
    request.on_accepted(1, 0.0)
    assert len(hub.timers) == (not options.get("acks_late", False))
    return request


def test_an_early_ack_leaves_the_loop_by_no_other_event(app: Celery) -> None:
    """What a timer queues for kombu's loop is called after its next event, or its next timer, and that may be late."""
    limiter, notes, loop = limiter_of(app), NotePipe(), Loop(timer=Timer(max_interval=10.0))
    limiter.serve(notes)
    loop.add_reader(limiter.waker.fileno(), limiter.on_wake)
    limiter.early_acks.serve(loop)
    loop.call_repeatedly(5.0, lambda: None)  # as the pool's look for dead processes
    request, sent = request_of(limited(app)), list[float]()
    # As Celery's consumer does it.
    request._on_ack = lambda *_: loop.call_soon(lambda: sent.append(time.monotonic()))
    permit = Permit(request.holder, 1, (), 0.0, 30.0, 1)
    begun = time.monotonic()
    notes.held(PermitAcquiredEvent(permit, "limited"), begun)
    loop.call_soon(partial(request.on_accepted, os.getpid(), begun))
    turns = loop.create_loop()
    while not sent and time.monotonic() < begun + 3:
        next(turns)
    loop.close()
    notes.close()
    assert sent
    assert sent[0] - begun < 1


@pytest.mark.rabbitmq
def test_an_early_ack_is_sent_while_the_task_runs(
    rabbit_site: Site, rabbitmq_server: Rabbit
) -> None:
    """By a timer of the loop: nothing else has the main process read of the permit, or turn its loop, for 10 s."""
    site = rabbit_site
    site.start(
        concurrency=1,
        options=["--without-heartbeat"],
        env={"REST_LONG": "1", "LOOK_FOR_DEAD": "3600", "SWEEP_ONCE": "1"},
        # A session of held tasks wakes the loop, too, three times in a lease.
        conf={"semaphore_keep": False, "broker_heartbeat": 0},
    )
    site.send("early", "success", "first").get(20)
    time.sleep(2)  # what a worker's start has its loop do is over
    site.occupy()
    wait_until(
        lambda: rabbitmq_server.messages(site.broker).get("celery") == 0,
        3,
        "its message is acknowledged",
    )
    assert site.inside("held") == 1
