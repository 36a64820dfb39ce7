"""The thread that calls receivers: it never makes its caller wait, and ends in bounded time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from celery_semaphore.worker.permits import receivers
from celery_semaphore.worker.permits.receivers import ReceiverThread
from tests.support.greenlets import GreenletPool, greenlets
from tests.support.process import wait_until


@pytest.fixture
def logged_soon() -> list[Callable[[], None]]:
    return []


@pytest.fixture
def thread(logged_soon: list[Callable[[], None]]) -> Iterator[ReceiverThread]:
    thread = ReceiverThread(logged_soon.append)
    yield thread
    thread.close(5)


class Hanging:
    """A receiver that hangs until it is freed."""

    def __init__(self) -> None:
        self.began, self.freed = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.began.set()
        self.freed.wait(20)


@pytest.fixture
def hanging(thread: ReceiverThread) -> Iterator[Hanging]:
    """The thread is inside a receiver."""
    hanging = Hanging()
    thread.start()
    thread.add(hanging)
    assert hanging.began.wait(5)
    yield hanging
    hanging.freed.set()


def test_calls_in_order_but_the_urgent_first(thread: ReceiverThread, hanging: Hanging) -> None:
    called: list[str] = []
    thread.add(lambda: called.append("a"))
    thread.add(lambda: called.append("b"))
    thread.add(lambda: called.append("urgent"), urgent=True)
    hanging.freed.set()
    wait_until(lambda: called == ["urgent", "a", "b"])


@pytest.mark.parametrize("error", [ValueError, IndexError, SystemExit])
def test_a_receiver_that_fails_stops_no_other(
    thread: ReceiverThread, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise error

    called = threading.Event()
    thread.start()
    thread.add(fails)
    thread.add(called.set)
    assert called.wait(5)
    assert caplog.messages == ["a receiver failed"]


def test_too_many_calls_are_dropped_and_logged_once(
    thread: ReceiverThread,
    hanging: Hanging,
    logged_soon: list[Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(receivers, "MAX_QUEUED", 3)
    called: list[str] = []
    for n in range(5):
        thread.add(lambda n=n: called.append(f"released {n}"))  # type: ignore[misc]
    for n in range(5):
        thread.add(lambda n=n: called.append(f"lost {n}"), urgent=True)  # type: ignore[misc]
    assert caplog.messages == [], "the caller may be in a signal handler: another thread logs"
    (log,) = logged_soon
    log()
    assert "6 signals wait, the next ones are dropped" in caplog.text
    hanging.freed.set()
    wait_until(lambda: "keep up again" in caplog.text)
    assert called == ["lost 2", "lost 1", "lost 0", "released 0", "released 1", "released 2"]
    thread.add(lambda: called.append("next"))
    wait_until(lambda: called[-1] == "next")
    assert len(logged_soon) == 1


def test_close_finishes_what_is_queued(thread: ReceiverThread, hanging: Hanging) -> None:
    called: list[int] = []
    for n in range(100):
        thread.add(lambda n=n: called.append(n))  # type: ignore[misc]
    hanging.freed.set()
    thread.close(5)
    assert called == [*range(100)]


def test_close_waits_for_a_receiver_that_hangs_no_longer_than_told(
    thread: ReceiverThread, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []
    thread.add(lambda: called.append(1))
    start = time.monotonic()
    thread.close(0.2)
    assert time.monotonic() - start < 5
    assert "still runs after 0.2 s: the worker ends, and 1 signals are not sent" in caplog.text
    hanging.freed.set()
    thread.close(5)
    assert called == []


def test_close_without_a_thread_waits_for_nothing(thread: ReceiverThread) -> None:
    thread.add(lambda: None)
    thread.close(60)


def test_a_signal_handler_may_add_whatever_it_interrupted(thread: ReceiverThread) -> None:
    """A cold shutdown ends tasks in one, and may have interrupted the same call."""
    called, added = [0, 0], [0, 0]

    def count(who: int) -> None:
        called[who] += 1

    def handler(*_: object) -> None:
        added[1] += 1
        thread.add(lambda: count(1))

    thread.start()
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            if sum(added) - sum(called) < 500:  # so that none is dropped
                added[0] += 1
                thread.add(lambda: count(0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    thread.close(10)
    assert called == added
    assert min(added) > 100


@greenlets
def test_greenlets_go_on_while_a_receiver_sleeps(pool: GreenletPool) -> None:
    script = """
from celery_semaphore.worker.permits.receivers import ReceiverThread
thread = ReceiverThread(lambda call: call())
thread.start()
thread.add(lambda: time.sleep(30))
def ask():
    thread.add(lambda: None)
    time.sleep(0.2)
"""
    assert pool.seconds_of_eight(script) < 2.0
