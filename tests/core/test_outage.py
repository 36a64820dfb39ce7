"""What is logged of an outage, and what ends it."""

from __future__ import annotations

import logging

import pytest

from celery_semaphore.core import outage as module
from celery_semaphore.core.outage import QUIET_S, Outage, outage_of
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.testing.clock import Clock
from tests.support.calling import in_child

OTHERS = " (others are not logged until the store answers)"
AGAIN = "the store answers again"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_the_first_failure_and_the_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    outage.answered()
    for name in "aba":
        outage.failed("%s: %s", name, "gone")
    assert warnings(caplog) == ["a: gone" + OTHERS]
    clock.advance(QUIET_S)
    outage.answered()
    outage.answered()
    assert warnings(caplog) == [AGAIN]
    outage.failed("%s", "c")
    assert warnings(caplog) == ["c" + OTHERS]


def test_all_others_are_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "celery_semaphore")
    outage = Outage()
    for name in "ab":
        outage.failed("%s", name)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "a" + OTHERS),
        ("DEBUG", "b"),
    ]


@pytest.mark.parametrize("fails", ["failed", "note"])
def test_answers_to_some_calls_end_nothing(
    clock: Clock, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    """Or each of many failures at one resource would be logged, and a false end after it."""
    outage = Outage()
    outage.failed("first")
    for _ in range(9):
        clock.advance(QUIET_S - 0.1)
        outage.answered()
        getattr(outage, fails)(*["next"][: fails == "failed"])
        outage.answered()
    assert warnings(caplog) == ["first" + OTHERS]


@pytest.mark.parametrize("fails", ["failed", "note"])
def test_an_end_that_no_call_noticed(
    clock: Clock, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    """Its calls gave up, or never go on: it must not hide the next outage."""
    outage = Outage()
    outage.failed("a")
    outage.answered()
    clock.advance(QUIET_S)
    getattr(outage, fails)(*["b"][: fails == "failed"])
    outage.failed("c")
    assert warnings(caplog) == ["a" + OTHERS, ("b" if fails == "failed" else "c") + OTHERS]


def test_one_call_now_and_then(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    for name in "abc":
        outage.failed(name)
        clock.advance(60.0)
    assert warnings(caplog) == ["a" + OTHERS]


def test_a_failure_while_the_end_is_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line must not be that the store answers."""
    outage, warning = Outage(), logging.Logger.warning
    outage.failed("a")
    clock.advance(QUIET_S)

    def late(logger: logging.Logger, text: str, *given: object) -> None:
        if text == AGAIN:
            outage.failed("b")
        warning(logger, text, *given)

    monkeypatch.setattr(logging.Logger, "warning", late)
    outage.answered()
    outage.failed("c")
    assert warnings(caplog) == [each + OTHERS for each in "ab"] + [AGAIN, "c" + OTHERS]


def test_a_signal_while_the_first_failure_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strike(*_: object) -> None:
        raise KeyboardInterrupt

    outage = Outage()
    with monkeypatch.context() as patch:
        patch.setattr(logging.Logger, "warning", strike)
        with pytest.raises(KeyboardInterrupt):
            outage.failed("a")
    outage.failed("b")
    assert warnings(caplog) == ["b" + OTHERS]


def test_one_for_each_store_and_process() -> None:
    store, other = MemoryStore(), MemoryStore()
    outage = outage_of(store)
    assert outage is outage_of(store)
    assert outage is not outage_of(other)
    assert in_child(lambda: outage_of(store) is not outage)
