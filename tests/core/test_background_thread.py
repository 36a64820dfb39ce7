"""BackgroundThread: it begins once, survives each error, and is waited for in bounds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from celery_semaphore.core.background_thread import BackgroundThread
from tests.support.process import wait_until


class Owner:
    """Counts the steps of a thread; the test decides what they do, and when it is over."""

    def __init__(self) -> None:
        self.steps, self.ends = 0, 0
        self.over = threading.Event()
        self.error: type[BaseException] | None = None
        self.then: Callable[[], None] = lambda: None
        self.thread = BackgroundThread("a-thread", self.step, self.over.is_set, self.end)

    def step(self) -> None:
        self.steps += 1
        self.then()
        if self.error is not None:
            raise self.error
        self.over.wait(0.01)

    def end(self) -> None:
        self.ends += 1


@pytest.fixture
def owner() -> Owner:
    return Owner()


def named(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == name]


def test_it_runs_one_thread_until_it_is_over(owner: Owner) -> None:
    for _ in range(3):
        owner.thread.start()
    (thread,) = named("a-thread")
    assert thread.daemon
    wait_until(lambda: owner.steps > 2)
    assert not owner.thread.join(0.01)
    owner.over.set()
    assert owner.thread.join(10)
    assert (named("a-thread"), owner.ends) == ([], 1)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_step_that_fails_ends_nothing(
    owner: Owner, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    owner.error = error
    began = time.monotonic()
    owner.thread.start()
    wait_until(lambda: owner.steps >= 3)
    owner.over.set()
    assert owner.thread.join(10)
    assert {*caplog.messages} == {"a-thread: a step failed; the thread continues"}
    assert owner.steps <= 2 + (time.monotonic() - began) / 0.05, "it does not spin"


def test_a_start_waits_for_no_other(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """That waits for the new thread, in which the collector may close what starts it again."""
    real, goes_on, is_starting = threading.Thread.start, threading.Event(), threading.Event()

    def slowly(thread: threading.Thread) -> None:
        is_starting.set()
        assert goes_on.wait(10)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    starter, again = (threading.Thread(target=owner.thread.start, daemon=True) for _ in range(2))
    real(starter)
    assert is_starting.wait(10)
    real(again)
    again.join(5)
    ended = not again.is_alive()
    goes_on.set()
    starter.join(10)
    wait_until(lambda: owner.steps, 10)
    assert ended
    assert len(named("a-thread")) == 1
    owner.over.set()


def test_a_thread_that_did_not_start_is_not_waited_for(owner: Owner) -> None:
    assert owner.thread.join(60)


def test_it_does_not_wait_for_itself(owner: Owner) -> None:
    joined: list[bool] = []

    def end_itself() -> None:
        owner.over.set()
        joined.append(owner.thread.join(60))

    owner.then = end_itself
    owner.thread.start()
    assert owner.thread.join(10)
    assert joined == [False]


def test_an_end_that_cannot_be_found_out_ends_nothing(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [MemoryError()] * 2

    def is_over() -> bool:
        if errors:
            raise errors.pop()
        return owner.over.is_set()

    thread = BackgroundThread("a-thread", owner.step, is_over, owner.end)
    thread.start()
    wait_until(lambda: owner.steps > 0)
    owner.over.set()
    assert thread.join(10)
    assert caplog.text.count("a step failed") == 2


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_start_that_is_interrupted_is_made_up_for(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """And one thread runs, whether or not the first one had begun."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.undo()
        if moment == "after":
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        owner.thread.start()
    owner.thread.start()
    wait_until(lambda: owner.steps > 2)
    assert len(named("a-thread")) == 1
    owner.over.set()
    assert owner.thread.join(10)


def test_a_thread_that_dies_at_its_start_is_replaced(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a handler raises as the thread begins, ``Thread.start`` forgets the thread, which then ends by that."""
    begins = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
    begin, goes_on = getattr(threading, begins), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    def interrupted(bootstrap: Callable[[], None], *given: Any, **options: Any) -> None:
        monkeypatch.setattr(threading, begins, begin)
        begin(partial(later, bootstrap), *given, **options)
        raise InterruptedError

    def later(bootstrap: Callable[[], None]) -> None:
        goes_on.wait(10)
        bootstrap()

    monkeypatch.setattr(threading, begins, interrupted)
    with pytest.raises(InterruptedError):
        owner.thread.start()
    goes_on.set()
    first = owner.thread._thread
    assert first is not None
    wait_until(lambda: first.ident is not None and not first.is_alive(), 10, "it has died")
    owner.thread.start()
    wait_until(lambda: owner.steps > 2)
    owner.over.set()
    assert owner.thread.join(10)
    owner.thread.start()
    assert named("a-thread") == [], "one that ended is not replaced"


def test_a_handler_may_start_it_while_it_is_started(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def handled(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        owner.thread.start()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", handled)
    owner.thread.start()
    wait_until(lambda: owner.steps > 2)
    wait_until(lambda: len(named("a-thread")) == 1, 10, "the other one has ended")
    owner.over.set()
    assert owner.thread.join(10)
    assert owner.ends == 1


def test_a_thread_whose_place_another_one_has_ends(owner: Owner) -> None:
    """Its start was interrupted after it had begun, and before it could be seen."""
    owner.thread.start()
    first = owner.thread._thread
    assert first is not None
    owner.thread._thread = None
    owner.thread.start()
    first.join(10)
    assert not first.is_alive()
    assert (len(named("a-thread")), owner.ends) == (1, 0)
    owner.over.set()
    assert owner.thread.join(10)
    assert owner.ends == 1
