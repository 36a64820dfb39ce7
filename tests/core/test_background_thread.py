"""BackgroundThread: it begins once, survives each error, and is waited for in bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

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
