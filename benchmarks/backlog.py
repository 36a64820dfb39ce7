"""Run many tasks at a small limit in several ways: parked, requeued, by hand, by five processes.

By hand is what people write without this library: a semaphore in Redis and ``retry(countdown=1)``. Five processes
that run tasks without a limit show what the machine allows just then: no limit of five can do better. These two ways
can take very long, so they are watched only for a while.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from .app import LIMIT
from .figure import Figure
from .outcome import Outcome, outcome_of
from .site import Site, site

WORKERS, PROCESSES = 2, 8
WATCHED = 40.0  # seconds
WAYS = {
    "park": "parked",
    "requeue": "requeued",
    "by_hand": "by hand",
    "five": "without a limit, by five processes",
}


@dataclass(frozen=True)
class Crowd:
    """Describes a crowd of tasks; ``used`` is the least share of the permits' time that each way promises, if any."""

    label: str
    tasks: Sequence[float]
    used: dict[str, float] = field(default_factory=dict)
    joins: bool = False  # a second worker starts when a third of the tasks is done
    limit: int = LIMIT

    @property
    def ideal(self) -> float:
        """The seconds that all tasks would take if no permit was ever idle."""
        return sum(self.tasks) / self.limit


def _mixed(count: int) -> list[float]:
    tasks = [0.05] * (count * 9 // 10) + [5.0] * (count // 10)
    random.Random(1).shuffle(tasks)  # the same order in each run
    return tasks


HUNDRED = Crowd("2,000 of 100 ms", [0.1] * 2_000, {"park": 0.92, "requeue": 0.93})
SHORT = Crowd("2,000 of 20 ms", [0.02] * 2_000, {"park": 0.7, "requeue": 0.72})
# Fewer than 2,000: at five seconds each, all of them would take minutes.
MIXED = Crowd("400, 90 % of 50 ms and 10 % of 5 s", _mixed(400), {"park": 0.92, "requeue": 0.88})
LONG = Crowd("10,000 of 100 ms", [0.1] * 10_000, {"park": 0.92})
JOINED = Crowd("2,000 of 100 ms, a worker joins", [0.1] * 2_000, {"park": 0.92}, joins=True)
# Each worker has fewer processes than there are permits, and the waits that it holds stand together in the line.
LATE = Crowd(
    "2,000 of 100 ms, limit 10, a worker joins",
    [0.1] * 2_000,
    {"requeue": 0.8},
    joins=True,
    limit=10,
)


def compared(crowd: Crowd) -> list[Figure]:
    outcomes = {way: _played(way, crowd) for way in WAYS}
    figures = [figure for way in WAYS for figure in _figures(crowd, way, outcomes[way])]
    for way, other in itertools.product(("park", "requeue"), ("by_hand", "five")):
        label = f"{crowd.label}: share of the permits used, {WAYS[way]} to {WAYS[other]}"
        figures.append(Figure(label, outcomes[way].used / outcomes[other].used))
    return figures


def _figures(crowd: Crowd, way: str, found: Outcome) -> list[Figure]:
    label, most = f"{crowd.label}, {WAYS[way]}", {"park": 2.05, "requeue": 1.1}.get(way)
    least, strict = crowd.used.get(way), 1.0 if way in ("park", "requeue") else None
    return [
        Figure(f"{label}: deliveries per task", found.deliveries, most, unit=""),
        Figure(
            f"{label}: share of the permits used",
            found.used,
            least,
            at_least=True,
            unit="",
            detail=found.detail(),
        ),
        Figure(f"{label}: places displaced", found.displaced, strict, unit=""),
    ]


def _played(way: str, crowd: Crowd) -> Outcome:
    with site() as made:
        if way == "five":
            made.start(crowd.limit)
        else:
            made.start(PROCESSES, 1 if crowd.joins else WORKERS, limit=crowd.limit)
        before = made.cpu()
        made.stage((way, [n, seconds]) for n, seconds in enumerate(crowd.tasks))
        made.release()
        longest = WATCHED + (crowd.ideal if way in ("park", "requeue") else 0)
        with contextlib.suppress(TimeoutError):
            if crowd.joins and way != "five":
                _wait(made, len(crowd.tasks) // 3, longest)
                made.start(PROCESSES, limit=crowd.limit)
            _wait(made, len(crowd.tasks), longest)
        return outcome_of(made, made.cpu() - before, crowd.limit)


def _wait(made: Site, done: int, longest: float) -> None:
    made.wait(lambda: made.count("done") >= done, longest, f"{done} tasks", interval=0.1)
