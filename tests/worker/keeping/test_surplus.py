"""A worker whose granted tasks wait for a process leaves the last of its waits to others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery.worker import state

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.keeping.kept_messages import KeptMessages
from celery_semaphore.worker.keeping.prefetch import Prefetch
from celery_semaphore.worker.keeping.surplus import BEGINS_S, CROWDED_S, LEAST_WAITS, PAUSE_S
from tests.support.variants import also

from ..brokers import EITHER
from ..conftest import Site
from ..messages.test_parking import deliveries, done, ran_once
from ..requests import kept_for
from .test_kept import LONG, wait_until_kept
from .test_kept_messages import Consumer, Request, kept_by

API = Claim("api", None, 5)
CLAIMS = (Claim("one", None, 1),)
MANY = 200  # in one turn


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Site:
    site: Site = request.getfixturevalue(request.param)
    site.lease = 60.0
    return site


@pytest.mark.parametrize("broker", EITHER, indirect=True)
@pytest.mark.parametrize(
    "beside",
    [True, *also(False)],
    ids=["beside another", "alone"],
)
def test_an_idle_worker_gets_what_a_small_one_kept(broker: Site, beside: bool) -> None:
    """Those at the end of the line, each once; alone it keeps all of them."""
    store = broker.store()
    outside = [f"outside-{n}" for n in range(API.limit or 0)]
    assert all(isinstance(store.acquire([API], each), Permit) for each in outside)
    small = broker.start(name="small", concurrency=1, conf=LONG)
    results = [broker.send("call", 0.6, "w") for _ in range(40)]
    wait_until_kept(broker, small, 40)
    if beside:
        broker.start(name="large", pool="threads", concurrency=10, conf=LONG)
    for each in outside:
        store.release(each, [API])
    store.close()
    done(results)
    ran_once(broker, "w", results, API.limit or 0)
    received = [deliveries(broker)[each.id] for each in results]
    assert received[: LEAST_WAITS + 1] == [1] * (LEAST_WAITS + 1)
    again = received.count(2)
    assert again >= 10 if beside else again == 0


# -- in this process, on a consumer whose clock the test has


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    c = Consumer()
    c.pool = cast("Any", SimpleNamespace)(uses_semaphore=True, num_processes=1, limit=1)
    clock = SimpleNamespace(monotonic=lambda: c.timer.now)
    for each in ("kept_messages", "prefetch", "surplus", "pool_line", "timetable"):
        monkeypatch.setattr(f"celery_semaphore.worker.keeping.{each}.time", clock)
    monkeypatch.setattr(state, "task_reserved", lambda _: None)
    monkeypatch.setattr(state, "reserved_requests", set())
    return c


class Crowded:
    """A worker that keeps waits, and has a granted task that waits for a process."""

    def __init__(self, c: Consumer, count: int) -> None:
        self.calls = list[Callable[[], object]]()
        self.returned = list[int]()
        self.c = c
        self.messages: KeptMessages = kept_by(c, self.calls.append)
        self.messages.session.sessions = 2
        for place in range(count):
            self.keep(place)
        self.turn()
        granted: Any = Request(c, "granted")
        granted.granted = True
        state.reserved_requests.add(granted)
        self.granted = granted
        self.messages.session.unstarted.add(HeldWait(Ticket("granted", 0, 0), CLAIMS), granted)

    def keep(self, place: int) -> None:
        ticket, now = Ticket(f"n{place}", 0, place), self.c.timer.now
        request = Request(self.c, f"task {place}")
        request.message.reject_log_error = lambda *_, **__: self.returned.append(place)
        kept = kept_for(request, ticket, now + 900, now + 900, now + 900, HeldWait(ticket, CLAIMS))
        self.messages.keep(kept)

    def turn(self) -> None:
        """Make the calls that wait for the loop, but not those that they ask for."""
        for _ in range(len(self.calls)):
            self.calls.pop(0)()

    def visit(self, after: float) -> None:
        self.c.timer.now += after
        self.messages._visit()


def test_it_keeps_the_first_in_line(c: Consumer) -> None:
    crowded = Crowded(c, LEAST_WAITS + 3)
    crowded.visit(2 * BEGINS_S)
    assert crowded.returned == [], "it has waited for a moment only"
    crowded.visit(CROWDED_S)
    assert crowded.returned == [LEAST_WAITS, LEAST_WAITS + 1, LEAST_WAITS + 2]
    assert [kept.ticket.place for kept in crowded.messages.line() if kept.ticket] == list(
        range(LEAST_WAITS)
    )
    assert c.qos.value == c.qos.prev == 4 + LEAST_WAITS, "the broker knows it already"


def test_short_tasks_that_wait_in_turn_count_together(c: Consumer) -> None:
    """None of them waits for long, but there is always one."""
    crowded = Crowded(c, LEAST_WAITS + 1)
    for n in range(10):
        crowded.visit(CROWDED_S / 4)
        again: Any = Request(c, f"granted {n}")
        again.granted = True
        state.reserved_requests.add(again)
        crowded.messages.session.unstarted.add(HeldWait(Ticket(f"g{n}", 0, 0), CLAIMS), again)
        crowded.granted.granted = False
        c.timer.now += 2 * BEGINS_S
        crowded.granted = again
    assert crowded.returned == [LEAST_WAITS]


@pytest.mark.parametrize("how", ["alone", "none waits", "a moment without"])
def test_it_keeps_all(c: Consumer, how: str) -> None:
    crowded = Crowded(c, LEAST_WAITS + 3)
    if how == "alone":
        crowded.messages.session.sessions = 1
    if how == "none waits":
        crowded.granted.time_start = 1.0
    crowded.visit(CROWDED_S / 2)
    if how == "a moment without":
        crowded.granted.time_start = 1.0
        crowded.visit(CROWDED_S / 2)
        crowded.granted.time_start = None
        crowded.visit(CROWDED_S / 4)
        crowded.visit(CROWDED_S * 0.9)
    else:
        crowded.visit(CROWDED_S)
    assert crowded.returned == []


def test_it_does_so_once_a_second(c: Consumer) -> None:
    crowded = Crowded(c, LEAST_WAITS + 1)
    crowded.visit(2 * BEGINS_S)
    crowded.visit(CROWDED_S)
    crowded.keep(LEAST_WAITS + 1)
    crowded.turn()
    crowded.visit(PAUSE_S / 2)
    assert crowded.returned == [LEAST_WAITS]
    crowded.visit(PAUSE_S / 2)
    assert crowded.returned == [LEAST_WAITS, LEAST_WAITS + 1]


@pytest.mark.parametrize("then", ["goes on", "one begins", "ends", "loses its connection"])
def test_many_go_back_in_several_turns(c: Consumer, then: str) -> None:
    """The last ones first, so that those before them end in front of them; what leaves in between goes one way only."""
    count = LEAST_WAITS + 2 * MANY + 1
    crowded = Crowded(c, count)
    crowded.visit(2 * BEGINS_S)
    crowded.visit(CROWDED_S)
    last = list(range(count - MANY, count))
    assert crowded.returned == last
    assert c.qos.value == 4 + LEAST_WAITS, "of all of them, or the broker would deliver them again"
    if then == "one begins":
        crowded.messages.begin(crowded.messages.line()[LEAST_WAITS], granted=True)
    elif then == "ends":
        crowded.messages.give_back_all()
    elif then == "loses its connection":
        crowded.messages.forget()
    while crowded.calls:
        crowded.turn()
    first = {"goes on": LEAST_WAITS, "one begins": LEAST_WAITS + 1, "ends": 0}.get(
        then, count - MANY
    )
    assert sorted(crowded.returned) == [*range(first, count)]


def test_no_more_are_received_for_a_lease_but_for_a_free_process(c: Consumer) -> None:
    prefetch = Prefetch(c)
    prefetch.restrain(1, 60.0)
    state.reserved_requests.add(object())
    assert [prefetch.increase() for _ in range(2)] == [True, False]
    state.reserved_requests.clear()
    assert prefetch.increase(), "tasks without a limit may be next"
    state.reserved_requests.add(object())
    assert not prefetch.increase()
    c.timer.now += 60.0
    assert prefetch.increase()


def test_a_worker_whose_processes_are_free_again_receives_on(c: Consumer) -> None:
    """What came meanwhile uses up its prefetch, and what it keeps may wait for long."""
    crowded = Crowded(c, LEAST_WAITS)
    crowded.visit(2 * BEGINS_S)
    crowded.visit(CROWDED_S)
    for place in range(LEAST_WAITS, LEAST_WAITS + 3):
        crowded.keep(place)
    crowded.turn()
    crowded.visit(0.1)
    assert c.qos.value == 4 + LEAST_WAITS
    crowded.granted.granted = False
    state.reserved_requests.clear()
    crowded.visit(0.1)
    assert c.qos.value == 4 + LEAST_WAITS + 3
