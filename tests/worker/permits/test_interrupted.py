"""A signal handler runs in the main thread, whatever that was about to do: cold and soft shutdowns."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from celery_semaphore.core.announcer import Announcer
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.events import PermitAcquiredEvent
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.signal_safe_event import SignalSafeEvent
from celery_semaphore.core.store import HandedOn
from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.note import NotePipe
from tests.support.process import wait_until

from ..conftest import Site

API, ONE = Claim("api", None, 5), Claim("one", None, 1)


def quits_inside(directory: Path, processes: int) -> dict[str, str]:
    return {"QUIT_INSIDE": str(directory / "first"), "QUIT_PROCESSES": str(processes)}


def test_a_cold_shutdown_while_notes_are_entered(site: Site, tmp_path: Path) -> None:
    """Celery ends the pool in the handler, and reports the ends of its tasks there."""
    site.lease = 60.0
    worker = site.start(concurrency=1, env=quits_inside(tmp_path, 1))
    resource = uuid4().hex
    site.send("early", "sleep", resource)
    worker.wait(30)
    assert (tmp_path / "first.quitted").exists()
    assert site.inside(resource) == 0
    site.wait_all_back(ONE, 5)


def test_a_soft_shutdown_while_notes_are_entered(site: Site, tmp_path: Path) -> None:
    """Celery sleeps in the handler while tasks end: permits that are got meanwhile are renewed, too."""
    site.lease = 2.0
    conf = {
        "worker_soft_shutdown_timeout": 14
    }  # of which the tasks take six, and Celery sleeps all
    worker = site.start(concurrency=2, env=quits_inside(tmp_path, 2), conf=conf)
    seconds = 3 * site.lease
    for _ in range(2):
        site.send("call", seconds, "soft")
    wait_until(lambda: site.inside("soft") == 2, 20, "both run")
    store, seen = site.store(), set[int]()

    def over() -> bool:
        held = store.snapshot("api").occupied
        if site.inside("soft") == 2:  # after the store was asked: else one could have ended between
            seen.add(held)
        return site.counter.stats("soft")["completed"] > 0

    wait_until(over, 20, "the first one ends")
    store.close()
    assert seen == {2}
    worker.wait(40)
    site.wait_all_back(API, 5)


def test_a_soft_time_limit_between_the_permit_and_the_run(site: Site) -> None:
    """Its process goes on: the main process must not keep the permit on its books until that is gone."""
    site.lease = 60.0
    worker = site.start(concurrency=1, env={"SOFT_LIMIT_INSIDE": "1"})
    (child,) = worker.children()
    result = site.send("early", "success", "soft")
    wait_until(result.ready, 20, "it has an end")
    assert type(result.result).__name__ == "SoftTimeLimitExceeded"
    site.wait_all_back(ONE, 5)
    inspect = site.client.control.inspect([worker.hostname])

    def permits() -> Any:
        return inspect._request("semaphore")[worker.hostname]["permits"]

    wait_until(lambda: permits() == [], 10, "the books are empty")
    assert worker.children() == [child]


# -- in this process


class PermitObserver:
    """Writes down what is entered; what else happens then, the test decides."""

    def __init__(self) -> None:
        self.entered: list[str] = []

    def then(self, what: str) -> None: ...

    def enter(self, what: str) -> None:
        self.entered.append(what)
        self.then(what)

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        self.enter(f"asked {holder}")

    def held(self, acquired: PermitAcquiredEvent, since: float, pid: int | None = None) -> None:
        self.enter(f"held {acquired.permit.holder}")

    def over(self, holder: str) -> None:
        self.enter(f"over {holder}")

    def released(self, holder: str, handed: HandedOn) -> None:
        self.enter(f"released {holder}")

    def unreleased(self, holder: str) -> None:
        self.enter(f"unreleased {holder}")


def note_three(pipe: NotePipe, holder: str) -> list[str]:
    pipe.asked(holder, [ONE])
    pipe.held(PermitAcquiredEvent(Permit(holder, 1, (), 0.0, 30.0, 1)), 0.0)
    pipe.released(holder, HandedOn())
    return [f"{what} {holder}" for what in ("asked", "held", "released")]


def test_notes_are_entered_in_the_handler_that_interrupted_it() -> None:
    pipe, observer = NotePipe(), PermitObserver()
    first = note_three(pipe, "a")
    second = list[str]()

    def interrupted(what: str) -> None:
        if what == "held a" and not second:
            second.extend(note_three(pipe, "b"))
            assert pipe.drain(observer)
            assert not pipe.drain(observer)

    observer.then = interrupted  # type: ignore[method-assign]
    assert pipe.drain(observer)
    pipe.close()
    assert observer.entered == ["asked a", "held a", *first[1:], *second]


def test_notes_are_entered_while_another_thread_sleeps_there() -> None:
    pipe, observer, asleep, wake = (
        NotePipe(),
        PermitObserver(),
        threading.Event(),
        threading.Event(),
    )
    first = note_three(pipe, "a")

    def sleeping(what: str) -> None:
        if what == "held a" and not asleep.is_set():
            asleep.set()
            wake.wait(20)

    observer.then = sleeping  # type: ignore[method-assign]
    sleeper = threading.Thread(target=pipe.drain, args=[observer])
    sleeper.start()
    asleep.wait(20)
    second = note_three(pipe, "b")
    assert pipe.drain(observer)
    assert observer.entered == ["asked a", "held a", *first[1:], *second]
    wake.set()
    sleeper.join(20)
    assert not pipe.drain(observer)
    pipe.close()
    assert observer.entered == ["asked a", "held a", *first[1:], *second]


def test_a_note_is_never_read_in_part() -> None:
    """However full the pipe is: its writers wait, and whole notes come out in order."""
    pipe, observer, count = NotePipe(), PermitObserver(), 3000

    def write() -> None:
        for n in range(count):
            pipe.unreleased(f"{n}-{'x' * (n % 500)}")

    writer = threading.Thread(target=write)
    writer.start()

    def all_entered() -> bool:
        pipe.drain(observer)
        return len(observer.entered) >= count

    wait_until(all_entered, 20, "all are entered")
    writer.join(20)
    pipe.close()
    assert observer.entered == [f"unreleased {n}-{'x' * (n % 500)}" for n in range(count)]


class Keeper:
    def __init__(self) -> None:
        self.kept = set[str]()
        self.meanwhile = lambda: None

    def add(self, permit: Permit, *_: Any) -> None:
        self.meanwhile()
        self.kept.add(permit.holder)

    def discard(self, holder: str) -> None:
        self.kept.discard(holder)


def ledger_of(keeper: Keeper) -> tuple[Ledger, list[str]]:
    released: list[str] = []

    class Releases:
        def release(self, holder: str, *_: Any) -> None:
            released.append(holder)

    return Ledger(keeper, Releases(), Announcer(), lambda _: None), released  # type: ignore[arg-type]


def test_entered_twice_changes_nothing() -> None:
    keeper = Keeper()
    ledger, released = ledger_of(keeper)
    for _ in range(2):
        ledger.asked("a", [ONE])
        ledger.held(PermitAcquiredEvent(Permit("a", 1, (), 0.0, 30.0, 1)), 0.0)
    ledger.asked("a", [ONE])
    assert ledger.holds("a")
    assert keeper.kept == {"a"}
    ledger.ended("a")
    assert (keeper.kept, released) == (set(), ["a"])


def test_an_end_while_the_permit_is_entered() -> None:
    """Its handler reported it, or another thread."""
    keeper = Keeper()
    ledger, released = ledger_of(keeper)
    ledger.asked("a", [ONE])
    keeper.meanwhile = lambda: ledger.ended("a")
    ledger.held(PermitAcquiredEvent(Permit("a", 1, (), 0.0, 30.0, 1)), 0.0)
    assert (keeper.kept, released) == (set(), ["a"])


def test_an_event_is_set_any_number_of_times() -> None:
    """However often it was set, it wakes once; it does not matter which came first, the wait or the set."""
    event = SignalSafeEvent()
    assert not event.wait(0)
    event.set()
    event.set()
    assert event.wait(0)
    assert not event.wait(0)
    threading.Timer(0.05, event.set).start()
    assert event.wait(20)
