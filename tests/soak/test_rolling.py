"""The ordinary life of a cluster: workers, brokers and stores are restarted, and no task notices."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.counter import CounterServer

from .kinds import PLAIN, WAITS
from .ordinary_life import LIMITS, Day, Plan
from .places import broker_of, store_of
from .report import Report

TASKS = int(os.environ.get("ROLLING_TASKS", "20000"))
RESTARTS = int(os.environ.get("ROLLING_RESTARTS", "210"))
CELLS = [
    (broker, store) for broker in ("redis", "classic", "quorum") for store in ("valkey", "postgres")
]
LONG = Plan(
    restarts=-(-RESTARTS // len(CELLS)),
    tasks=-(-TASKS // len(CELLS)),
    scales={6: 2, 13: 5, 22: 3},
    broker=(10, 26),
    store=(17, 31),
    completes=True,
)
SHORT = Plan(
    restarts=10,
    tasks=0,
    scales={2: 2, 4: 4, 8: 3},
    backlog=dict.fromkeys(WAITS, 12) | {PLAIN: 4},
    body=0.2,
    settle=20.0,
)


def days(plan: Plan, cells: list[tuple[str, str]]) -> list[Any]:
    return [pytest.param((plan, *cell), id="-".join(cell)) for cell in cells]


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """Of the days that were lived so far."""
    return []


@pytest.fixture
def day(counter_server: CounterServer, request: pytest.FixtureRequest) -> Iterator[Day]:
    seed = int(os.environ.get("ROLLING_SEED", random.randrange(2**32)))
    print(f"ROLLING_SEED={seed}")
    plan, broker, store = request.param
    counter = counter_server.client()
    with broker_of(broker) as first, store_of(store) as second:
        day = Day(plan, first, second, counter, counter_server.env, random.Random(seed))
        try:
            yield day
        finally:
            day.close()
            counter.close()


def live(day: Day) -> Report:
    """Live it, print its figures, and return what was wrong with it."""
    day.live()
    report = Report.of(day, day.finish())
    print(report)
    return report


@pytest.mark.slow
@pytest.mark.timeout(300)  # so long its own bounded waits may take together, on a slow machine
@pytest.mark.parametrize("day", days(SHORT, CELLS[:1]), indirect=True)
def test_ten_restarts(day: Day) -> None:
    report = live(day)
    assert not report.complaints, day.fleet.story(*report.suspects)
    assert sum(report.restarts.values()) == SHORT.restarts


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("day", days(LONG, CELLS), indirect=True)
def test_rolling(day: Day, reports: list[Report]) -> None:
    report = live(day)
    reports.append(report)
    assert not report.complaints, day.fleet.story(*report.suspects)


@pytest.mark.soak
def test_rolling_as_a_whole(reports: list[Report]) -> None:
    """All days together: enough of everything, and no rate above that of the plain tasks."""
    if len(reports) < len(CELLS):
        pytest.skip("not all of the days were lived")
    whole = sum(reports[1:], start=reports[0])
    print(whole)
    assert not whole.complaints
    assert sum(whole.restarts.values()) >= RESTARTS
    assert whole.limited >= TASKS
    assert whole.inside == {limit: limit for limit in LIMITS}, "each limit was reached"
