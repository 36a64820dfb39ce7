"""The event loop learns of a permit without being woken for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from celery import Celery
from kombu.asynchronous.hub import Hub
from kombu.asynchronous.timer import Timer

from celery_semaphore.core.permit import Claim, Permit
from celery_semaphore.testing import MemoryStore
from celery_semaphore.worker.limiter import Limiter
from celery_semaphore.worker.lookout import LATEST, SOON, Lookout
from celery_semaphore.worker.note import NotePipe
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .conftest import Site


class Notes:
    """What the pool's processes wrote, and what was read of it."""

    def __init__(self) -> None:
        self.written: set[str] = set()
        self.read: set[str] = set()
        self.looks = 0
        self.looked = 0.0

    def drain(self) -> None:
        self.looks += 1
        self.looked = time.monotonic()
        self.read |= self.written

    def awaits(self, holder: str) -> bool:
        return holder not in self.read


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub(timer=Timer(max_interval=3600))
    yield made
    made.close()
    made.poller.close()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def lookout(hub: Hub, notes: Notes) -> Lookout:
    made = Lookout(notes.drain, notes.awaits)
    made.connect(hub)
    return made


def turn_until(hub: Hub, condition: Callable[[], bool]) -> None:
    """Let the loop run as long as it has timers, ten seconds at most."""
    ends = time.monotonic() + 10
    while hub.timer and not condition() and time.monotonic() < ends:
        next(hub.loop)
    assert condition()


def test_looks_once_where_all_have_their_permits(hub: Hub, notes: Notes, lookout: Lookout) -> None:
    for holder in ("a", "b"):
        lookout.expect(holder)
        notes.written.add(holder)
    turn_until(hub, lambda: notes.read == {"a", "b"})
    assert notes.looks == 1
    assert not hub.timer


def test_looks_again_for_whom_the_store_keeps_waiting(
    hub: Hub, notes: Notes, lookout: Lookout
) -> None:
    lookout.expect("slow")
    turn_until(hub, lambda: notes.looks == 3)
    notes.written.add("slow")
    turn_until(hub, lambda: notes.read == {"slow"})
    assert not hub.timer


def test_looks_for_each_that_comes_later(hub: Hub, notes: Notes, lookout: Lookout) -> None:
    for holder in ("a", "b"):
        lookout.expect(holder)
        notes.written.add(holder)
        turn_until(hub, lambda holder=holder: holder in notes.read)  # type: ignore[misc]


def test_goes_on_after_a_lost_connection_took_the_timers_along(
    hub: Hub, notes: Notes, lookout: Lookout
) -> None:
    lookout.expect("a")
    notes.written.add("a")
    hub.timer.clear()
    lookout.connect(hub)
    turn_until(hub, lambda: notes.read == {"a"})


def test_timers_that_outlive_a_connection_do_not_multiply(
    hub: Hub, notes: Notes, lookout: Lookout
) -> None:
    lookout.expect("slow")
    for _ in range(3):
        lookout.connect(hub)
    assert sum(not timer.entry.canceled for timer in hub.timer.queue) == 1


def test_who_is_slow_is_looked_for_less_and_less(hub: Hub, notes: Notes, lookout: Lookout) -> None:
    def due() -> float:
        [due] = [timer.eta for timer in hub.timer.queue if not timer.entry.canceled]
        return float(due)

    lookout.expect("slow")
    ends = time.monotonic() + 10
    while notes.looks < 10 and time.monotonic() < ends:
        hub.fire_timers()  # without the loop, which would sleep until the next is due
    assert due() - notes.looked >= LATEST
    lookout.expect("a")
    assert due() - time.monotonic() <= SOON


def test_one_may_be_added_while_the_others_are_gone_through(
    hub: Hub, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    """As a shutdown does in another thread; what a timer raises is logged."""

    def awaits(holder: str) -> bool:
        if notes.looks and not added:
            added.append("late")
            lookout.expect("late")
        return notes.awaits(holder)

    added = list[str]()
    lookout = Lookout(notes.drain, awaits)
    lookout.connect(hub)
    lookout.expect("a")
    notes.written.add("a")
    turn_until(hub, lambda: notes.looks == 2)
    notes.written.add("late")
    turn_until(hub, lambda: notes.read == {"a", "late"})
    assert not caplog.records


def test_without_a_loop_nothing_is_expected(notes: Notes) -> None:
    Lookout(notes.drain, notes.awaits).expect("a")
    assert not notes.looks


class Waits:
    """A request that acknowledges as Celery's does: when the loop has its next turn."""

    task = None

    def __init__(self, hub: Hub, then: Callable[[], None]) -> None:
        self._hub = hub
        self._then = then
        self.acknowledged: list[float] = []

    def permit_held(self) -> None:
        self._hub.call_soon(self._acknowledge)

    def permit_lost(self, reason: str) -> None: ...

    def _acknowledge(self) -> None:
        self.acknowledged.append(time.monotonic())
        self._then()


def test_the_ack_does_not_wait_for_what_else_wakes_the_loop(hub: Hub) -> None:
    """A timer's errands for the next turn are left lying until some file or other timer ends the sleep."""
    limiter = Limiter(Celery("test", set_as_current=False), MemoryStore())
    pipe = NotePipe()
    limiter.serve(pipe)
    hub.add_reader(limiter.alarm.fileno(), limiter.heard)
    limiter.lookout.connect(hub)
    hub.call_later(3600, print)
    request = Waits(hub, limiter.alarm.ring)
    limiter.side.ledger.watch("a", request)
    limiter.lookout.expect("a")
    pipe.asked("a", [Claim("api", None, 1)])
    pipe.held(Permit("a", 1, (), 0, time.time() + 60, 1), time.monotonic())
    began = time.monotonic()
    turn_until(hub, lambda: bool(request.acknowledged))
    assert request.acknowledged[0] - began < 5  # of the ten seconds that a loop sleeps at most
    limiter.close(1)
    pipe.close()


def test_an_early_ack_is_sent_while_the_task_runs(site: Site, valkey: ValkeyServer) -> None:
    site.start(concurrency=1, env={"REST_LONG": "1"})
    site.occupy()
    with valkey.client() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, 10, "its message is acknowledged")
    assert site.inside("held") == 1
