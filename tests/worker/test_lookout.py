"""The event loop learns of a permit without being woken for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from kombu.asynchronous.hub import Hub

from celery_semaphore.worker.lookout import Lookout
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .conftest import Site


class Notes:
    """What the pool's processes wrote, and what was read of it."""

    def __init__(self) -> None:
        self.written: set[str] = set()
        self.read: set[str] = set()
        self.looks = 0

    def drain(self) -> None:
        self.looks += 1
        self.read |= self.written

    def awaits(self, holder: str) -> bool:
        return holder not in self.read


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
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


def test_without_a_loop_nothing_is_expected(notes: Notes) -> None:
    Lookout(notes.drain, notes.awaits).expect("a")
    assert not notes.looks


def test_an_early_ack_is_sent_while_the_task_runs(site: Site, valkey: ValkeyServer) -> None:
    """Nothing but the permit wakes the loop here."""
    site.start(concurrency=1, env={"REST_LONG": "1"})
    site.occupy()
    with valkey.client() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, 10, "its message is acknowledged")
    assert site.inside("held") == 1
