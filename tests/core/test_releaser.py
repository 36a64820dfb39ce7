"""Releaser: a release that got no answer is repeated, and what waits for a release or a process follows it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from celery_semaphore.core import releaser as module
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.releaser import Releaser
from celery_semaphore.core.store import HandedOn
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import ResourceBusy, SemaphoreError, StoreUnavailable
from tests.support.failing_store import FailingStore
from tests.support.process import wait_until

ONE, BUSY = Claim("one", None, 1), Claim("busy", None, 1)


def test_an_unanswered_release_is_repeated() -> None:
    store = FailingStore()
    store.failures = 2
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.start()
    wait_until(lambda: store.released == [("a", ["one"])], 10, "it is released")
    releaser.close(5)


def test_what_is_older_than_a_lease_is_given_up_at_once(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    store.failures, store.lease = 1, 0.2
    releaser = Releaser(store)  # type: ignore[arg-type]
    for holder in "abc":
        releaser.release(holder, [ONE])
    time.sleep(0.3)  # longer than the lease
    releaser.release("d", [ONE])
    releaser.start()
    wait_until(lambda: store.released == [("d", ["one"])], 10, "it is released")
    releaser.close(5)
    assert caplog.text.count("3 release(s) given up, their leases have ended") == 1


def test_a_long_outage_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or there would be a line for each release, as its lease ends."""
    monkeypatch.setattr(module, "RETRY_PAUSE_S", 0.02)
    caplog.set_level("DEBUG", "celery_semaphore")
    store = FailingStore()
    store.failures, store.lease = 10**6, 0.1
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.start()
    for n in range(3):
        releaser.release(f"{n}", [ONE])
        wait_until(lambda n=n: caplog.text.count("given up") == n + 1, 10, "it is given up")  # type: ignore[misc]
    releaser.close(5)
    levels = [each.levelname for each in caplog.records if "given up" in each.getMessage()]
    assert levels == ["WARNING", "DEBUG", "DEBUG"]


def test_a_failing_store_is_not_asked_without_a_pause() -> None:
    store = FailingStore()
    store.failures = 1000
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.release("b", [ONE])
    releaser.start()
    wait_until(lambda: store.failures < 1000, 10, "it is tried")
    time.sleep(0.2)
    assert store.failures > 1000 - 4
    releaser.close(0.1)


def test_what_was_handed_on_is_told() -> None:
    told: list[HandedOn] = []
    releaser = Releaser(FailingStore(), handed_on=told.append)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.start()
    wait_until(lambda: told == [HandedOn()], 10, "it is told")
    releaser.close(5)


def test_notes_are_read_before_jobs() -> None:
    calls: list[str] = []
    releaser = Releaser(FailingStore(), before=lambda: calls.append("notes"))  # type: ignore[arg-type]
    releaser.soon(lambda: calls.append("job"))
    releaser.start()
    wait_until(lambda: "job" in calls, 10, "the job runs")
    releaser.close(5)
    assert calls[:2] == ["notes", "job"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_PAUSE_S", 0.05)
    monkeypatch.setattr(module, "IDLE_CHECK_S", 0.05)


@pytest.mark.usefixtures("quick")
def test_what_waits_for_a_release_follows_its_success() -> None:
    store = FailingStore()
    store.failures = 2  # both are tried once in vain
    seen: list[list[tuple[str | Ticket, list[str]]]] = []
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.release("b", [Claim("other", None, 1)])  # not together with the other
    releaser.after("a", lambda: seen.append(list(store.released)))
    releaser.start()
    wait_until(lambda: len(store.released) == 2, 10, "both are released")
    releaser.close(5)
    assert seen == [[("a", ["one"])]]


@pytest.mark.usefixtures("quick")
def test_what_waits_for_a_release_follows_when_it_is_given_up() -> None:
    store = FailingStore()
    store.failures, store.lease = 1000, 0.2
    followed = threading.Event()
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.after("a", followed.set)
    releaser.start()
    assert followed.wait(10)
    assert store.released == []
    releaser.close(5)


@pytest.mark.usefixtures("quick")
def test_what_waits_for_a_process_follows_its_last_notes_once() -> None:
    calls: list[str] = []
    ended = threading.Event()

    def gone() -> bool:
        if ended.is_set():
            calls.append("gone")
        return ended.is_set()

    releaser = Releaser(FailingStore(), before=lambda: calls.append("notes"))  # type: ignore[arg-type]
    releaser.when(gone, lambda: calls.append("then"))
    releaser.start()
    wait_until(lambda: calls.count("notes") > 2, 10, "it looks again")
    assert "then" not in calls
    ended.set()
    wait_until(lambda: "then" in calls and calls[-1] == "notes", 10, "it goes on")
    releaser.close(5)
    place = calls.index("then")
    assert calls[place - 2 : place + 1] == ["gone", "notes", "then"]
    assert calls.count("then") == 1


@pytest.mark.usefixtures("quick")
def test_close_waits_for_what_is_not_released() -> None:
    store = FailingStore()
    store.failures = 1
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.start()
    releaser.release("a", [ONE])
    begun = time.monotonic()
    releaser.close(20)
    assert store.released == [("a", ["one"])]
    assert time.monotonic() - begun < 10, "it waited though all was released"


@pytest.mark.usefixtures("quick")
def test_close_waits_for_a_process_that_ends() -> None:
    ended, followed = threading.Event(), threading.Event()
    releaser = Releaser(FailingStore())  # type: ignore[arg-type]
    releaser.when(ended.is_set, followed.set)
    releaser.start()
    timer = threading.Timer(0.3, ended.set)
    timer.start()
    releaser.close(20)
    assert followed.is_set()
    timer.join()


def test_close_ends_the_thread_though_a_release_fails() -> None:
    store = FailingStore()
    store.failures = 1000
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    before = set(threading.enumerate())
    releaser.start()
    wait_until(lambda: store.failures < 1000, 10, "it is tried")
    begun = time.monotonic()
    releaser.close(0.2)
    wait_until(lambda: set(threading.enumerate()) <= before, 10, "its thread has ended")
    assert time.monotonic() - begun >= 0.2, "it did not wait"


def place(n: int) -> Ticket:
    return Ticket(f"{n}:1", 0, n)


@pytest.mark.usefixtures("quick")
def test_the_place_of_a_wait_is_given_up_at_no_time() -> None:
    """Its process goes on, and asks for others: each place would keep a permit for two seconds."""
    store = FailingStore()
    store.failures, store.lease = 10, 0.2
    releaser = Releaser(store)  # type: ignore[arg-type]
    ticket = place(1)
    releaser.release("a", [ONE])
    releaser.release(ticket, [ONE])
    time.sleep(0.3)  # longer than the lease
    releaser.start()
    wait_until(lambda: store.released, 10, "it is released")
    releaser.close(5)
    assert store.released == [(ticket, ["one"])]


@pytest.mark.usefixtures("quick")
def test_the_oldest_releases_are_kept_for_longer_than_a_lease() -> None:
    """The store may let their permits last after its silence, or only then make the acquires."""
    store = FailingStore()
    store.failures, store.lease = 20, 0.2
    releaser = Releaser(store, keeps=3)  # type: ignore[arg-type]
    for n in range(5):
        releaser.release(f"h{n}", [ONE])
    time.sleep(0.3)  # longer than the lease
    releaser.start()
    wait_until(lambda: len(store.released) == 3, 10, "they are released")
    releaser.close(5)
    assert sorted(store.released) == [(f"h{n}", ["one"]) for n in range(3)]


@pytest.mark.usefixtures("quick")
def test_an_error_that_is_not_the_stores_drops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Each permit of the batch would last for its lease, and each place in line for as long as the process."""
    store, errors = FailingStore(), [AttributeError("readline"), MemoryError()]
    store.calls_at_once = 1
    release = store.release

    def fail(*_: Any) -> Any:
        raise errors[-1]

    def failing(holder: Any, *given: Any) -> Any:
        if holder == "a" and errors:
            raise errors.pop()
        return release(holder, *given)

    store.call_all, store.release = fail, failing  # type: ignore[method-assign,assignment]
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.release(place(1), [ONE])
    releaser.start()
    wait_until(lambda: len(store.released) == 2, 10, "they are released")
    releaser.close(5)
    assert "the release of a failed: AttributeError('readline')" in caplog.messages


@pytest.mark.usefixtures("quick")
def test_a_release_that_always_fails_is_given_up_after_a_lease() -> None:
    """And it keeps no other: also the place of a wait, which else is released at any time."""
    store = FailingStore()
    store.lease = 0.3
    release, tried = store.release, list[float]()

    def failing(holder: Any, *given: Any) -> Any:
        if holder == place(1):
            tried.append(time.monotonic())
            raise TypeError
        return release(holder, *given)

    store.release = failing  # type: ignore[method-assign,assignment]
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.start()
    releaser.release(place(1), [ONE])
    releaser.release("a", [ONE])
    wait_until(lambda: not (releaser._releases or releaser._jobs), 10, "both have ended")
    releaser.close(5)
    assert [holder for holder, _ in store.released] == ["a"]
    assert tried[-1] - tried[0] > 0.2


def test_many_are_released_together() -> None:
    store = FailingStore()
    store.calls_at_once = 1
    releaser = Releaser(store)  # type: ignore[arg-type]
    message = MessageId("m:0:0")
    for n in range(250):
        releaser.release(place(n), [ONE], message if n == 120 else None)
    followed = threading.Event()
    releaser.after(place(240), followed.set)
    releaser.start()
    assert followed.wait(10)
    releaser.close(5)
    assert [holder for holder, _ in store.released] == [place(n) for n in range(250)]
    assert [len(some) for some in store.together] == [100, 20, 100, 29]


def test_one_is_released_at_a_time_where_calls_wait_for_each_other() -> None:
    """The calls of other threads come in between."""
    store = FailingStore()
    releaser = Releaser(store)  # type: ignore[arg-type]
    for n in range(3):
        releaser.release(place(n), [ONE])
    releaser.start()
    wait_until(lambda: len(store.released) == 3, 10, "all are released")
    releaser.close(5)
    assert store.together == []


@pytest.mark.usefixtures("quick")
def test_of_many_the_unanswered_are_repeated() -> None:
    """One that is wrong is told, and keeps no other."""
    store, calls = FailingStore(), list[list[object]]()
    store.calls_at_once = 1

    def call_all(some: Any) -> list[Any]:
        calls.append([call.holder for call in some])
        if len(calls) == 1:
            return [StoreUnavailable("hung"), HandedOn(), SemaphoreError("wrong"), HandedOn()]
        return [HandedOn() for _ in some]

    store.call_all = call_all  # type: ignore[method-assign,assignment]
    told: list[HandedOn] = []
    releaser = Releaser(store, handed_on=told.append)  # type: ignore[arg-type]
    for n in range(4):
        releaser.release(place(n), [ONE])
    releaser.start()
    wait_until(lambda: store.released, 10, "the first is repeated")
    releaser.close(5)
    assert len(told) == 3
    assert calls == [[place(n) for n in range(4)]]
    assert store.released == [(place(0), ["one"])]


class Busy(FailingStore):
    """Makes no release of one resource, as its row is locked; each attempt takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.locked = True
        self.tried: list[object] = []

    def release(self, holder: Any, claims: Any, *given: Any) -> HandedOn:
        self.tried.append(holder)
        if self.locked and claims == [BUSY]:
            time.sleep(0.01)
            raise ResourceBusy("locked")
        return super().release(holder, claims, *given)


class TestBusyResource:
    def test_releases_of_others_pass_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However many of it there are; and without a pause."""
        monkeypatch.setattr(module, "RETRY_PAUSE_S", 60.0)
        store = Busy()
        releaser = Releaser(store)  # type: ignore[arg-type]
        for n in range(200):
            releaser.release(f"busy {n}", [BUSY])
        releaser.start()
        wait_until(lambda: len(store.tried) > 2, 10, "some are tried, one after the other")
        for n in range(3):
            before = len(store.tried)
            releaser.release(f"free {n}", [ONE])
            wait_until(lambda n=n: len(store.released) == n + 1, 10, "it is released")  # type: ignore[misc]
            assert store.tried.index(f"free {n}") <= before + 2
        store.locked = False
        wait_until(lambda: len(store.released) == 203, 10, "all are")
        releaser.close(5)

    def test_it_is_as_any_other_once_it_was_released(self) -> None:
        store = Busy()
        releaser = Releaser(store)  # type: ignore[arg-type]
        releaser.start()
        releaser.release("busy", [BUSY])
        wait_until(lambda: store.tried, 10, "it is tried")
        store.locked = False
        wait_until(lambda: store.released, 10, "it is released")
        wait_until(lambda: not releaser._busy, 10, "it is known")
        releaser.close(5)

    def test_what_is_queued_when_others_are_given_up_is_released(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is queued before that, and entered after it."""
        store = Busy()
        store.lease = 0.05
        releaser = Releaser(store)  # type: ignore[arg-type]
        give_up, given_up = releaser._give_up_overdue, list[Any]()

        def queue_and_give_up(error: Any) -> Any:
            if not given_up:
                releaser.release("later", [ONE])
            given_up.extend(over := give_up(error))
            return over

        monkeypatch.setattr(releaser, "_give_up_overdue", queue_and_give_up)
        releaser.release("given up", [BUSY])
        time.sleep(0.1)  # longer than the lease
        releaser.start()
        wait_until(lambda: given_up, 10, "one is given up")
        wait_until(lambda: ("later", ["one"]) in store.released, 10, "the other is released")
        releaser.close(5)
