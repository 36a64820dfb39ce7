"""Forecast: when it is worth asking for grants, and for whose turns."""

from __future__ import annotations

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.forecast import FASTEST_S, SLOWEST_S, Forecast
from celery_semaphore.core.session import EXPECTED, HeldWait
from celery_semaphore.core.ticket import Ticket

CLAIMS = (Claim("one", None, 1),)


def wait(name: str) -> HeldWait:
    return HeldWait(Ticket(name, 0, 1795325987266815), CLAIMS)


@pytest.fixture
def over() -> set[HeldWait]:
    """Waits that are."""
    return set()


@pytest.fixture
def forecast(over: set[HeldWait]) -> Forecast:
    return Forecast(lambda each: each not in over)


def test_it_asks_after_a_quarter_of_the_time_until_the_first_turn(forecast: Forecast) -> None:
    """But neither never nor all the time."""
    assert forecast.pause(1, 100.0) == (SLOWEST_S, FASTEST_S)
    for turn, pause in {1000.0: SLOWEST_S, 102.0: 0.5, 100.008: FASTEST_S, 99.0: FASTEST_S}.items():
        forecast.add(wait(f"{turn}"), turn)
        assert forecast.pause(1, 100.0)[0] == pytest.approx(pause)


def test_many_sessions_ask_less_often(forecast: Forecast) -> None:
    forecast.add(wait("a"), 0.0)
    assert forecast.pause(100, 100.0) == (0.05, 0.05)
    assert forecast.pause(10_000, 100.0) == (SLOWEST_S, SLOWEST_S)


def test_the_first_ones_are_looked_for(forecast: Forecast, over: set[HeldWait]) -> None:
    """As many as the store answers for in one call, of those that wait."""
    waits = [wait(f"{n}") for n in range(2 * EXPECTED)]
    for n, each in enumerate(waits):
        forecast.add(each, 100.0 + n)
    over.update(waits[:3])
    assert forecast.first() == waits[3 : 3 + EXPECTED]


def test_what_the_store_expects_counts(forecast: Forecast) -> None:
    forecast.add(wait("a"), 1000.0)
    forecast.learn(forecast.first(), {"a": 1.0}, 100.0)
    assert forecast.pause(1, 100.0)[0] == pytest.approx(0.25)


def test_one_without_an_answer_is_expected_later(forecast: Forecast) -> None:
    forecast.add(wait("a"), 0.0)
    forecast.learn(forecast.first(), {}, 100.0)
    assert len(forecast) == 1
    assert forecast.pause(1, 100.0)[0] == SLOWEST_S


def test_what_is_over_is_dropped(forecast: Forecast, over: set[HeldWait]) -> None:
    """Its turn may have been expected in an hour."""
    waits = [wait(f"{n}") for n in range(1000)]
    for each in waits:
        forecast.add(each, 3600.0)
    over.update(waits[:900])
    forecast.tidy(100)
    assert len(forecast) == 100


def test_it_asks_less_often_while_nothing_is_granted(
    forecast: Forecast, over: set[HeldWait]
) -> None:
    """The mean says soon, and those that run take long; it goes on quickly with the first change."""
    first, second = wait("a"), wait("b")
    for each in (first, second):
        forecast.add(each, 100.0)

    def pause(now: float) -> float:
        forecast.learn(forecast.first(), {"a": 0.02, "b": 0.04}, now)
        return forecast.pause(1, now)[0]

    found = [pause(100.0 + n) for n in (0.0, 0.8, 4.0, 40.0)]
    assert found == pytest.approx([FASTEST_S, 0.1, 0.5, SLOWEST_S])
    over.add(first)
    assert pause(141.0) == pytest.approx(0.01)


def test_it_asks_quickly_while_the_line_moves(forecast: Forecast) -> None:
    """The waits before it are those of other sessions: of them it learns by its own turn alone."""
    forecast.add(wait("a"), 100.0)
    pauses = []
    for now, turn in ((100.0, 0.2), (140.0, 0.16), (180.0, 0.16), (220.0, 0.12)):
        forecast.learn(forecast.first(), {"a": turn}, now)
        pauses.append(forecast.pause(1, now)[0])
    assert pauses == pytest.approx([0.05, 0.04, SLOWEST_S, 0.03])


def test_the_turns_that_are_known(forecast: Forecast) -> None:
    waits = [wait("a"), wait("b")]
    for each in waits:
        forecast.add(each, 100.0)
    forecast.learn(forecast.first(), {"a": 2.0, "b": 4.0}, 90.0)
    assert forecast.turns() == {"a": 92.0, "b": 94.0}
    forecast.learn(forecast.first(), {"b": 4.0}, 91.0)
    assert forecast.turns() == {"a": None, "b": 95.0}, (
        "the store says nothing of one that is paused"
    )
