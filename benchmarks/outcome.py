"""Evaluate how a crowd of tasks ran in one way."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from .app import LIMIT
from .site import Site

Run = tuple[float, float]  # when a body began and when it ended


@dataclass(frozen=True)
class Outcome:
    """Holds the figures of a run; ``displaced`` is the mean distance, in places, between two orders of the tasks.

    The first is the order in which they first asked for a permit, not that in which they were sent: a worker shuffles
    what it prefetches. For our tasks that is the instant in which the store made the ticket, which the refusal shows,
    or granted the permit at once. For tasks by hand it is their process's clock right before they ask. The second is
    the order in which their bodies began, or, for ``granted``, in which the store granted the permits, by their tokens.
    """

    deliveries: float  # per task that ended
    used: float  # share of the permits' time in which bodies ran
    displaced: float
    granted: float
    done: int
    most: int  # bodies that ran at once
    seconds: float
    cpu: float  # seconds of the workers' processor time per task that ended

    def detail(self) -> dict[str, object]:
        return {
            "tasks done": self.done,
            "deliveries": round(self.deliveries, 2),
            "places displaced": round(self.displaced, 2),
            "at once": self.most,
            "seconds": round(self.seconds, 1),
            "when granted": round(self.granted, 2),
            "CPU ms per task": round(1000 * self.cpu, 1),
        }


NOTHING = Outcome(math.nan, 0.0, math.nan, math.nan, 0, 0, math.nan, math.nan)


def outcome_of(
    made: Site, cpu: float, limit: int = LIMIT, since: float = 0.0, until: float = 0.0
) -> Outcome:
    """Evaluate the tasks that ended; a task that still runs when the watching ends is left out.

    The share counts from the first body to the last one's end, but not before ``since``, and at least ``until``.
    """
    runs = sorted(made.lines("work"), key=lambda run: run[1])
    if not runs:
        return NOTHING
    bodies = [(run[1], run[2]) for run in runs]
    began, ended = bodies[0][0], max(until, *(end for _, end in bodies))
    assert since < ended, "all tasks had run before the share counts"
    asked = {n: admitted for n, _, _, admitted in runs}
    for n, instant in made.lines("asked"):
        if n in asked:
            asked[n] = min(asked[n], instant)
    first_come = sorted(asked, key=asked.__getitem__)
    return Outcome(
        deliveries=made.count("received") / len(runs),
        used=share(bodies, max(began, since), ended, limit),
        displaced=_distance(first_come, (run[0] for run in runs)),
        granted=_distance(first_come, (run[0] for run in sorted(runs, key=lambda run: run[3]))),
        done=len(asked),
        most=most_at_once(bodies),
        seconds=ended - began,
        cpu=cpu / len(runs),
    )


def most_at_once(runs: Iterable[Run]) -> int:
    """Return how many bodies ran at once at most, by the clock that all processes share."""
    steps = sorted(step for began, ended in runs for step in ((began, 1), (ended, -1)))
    return max(accumulate(step for _, step in steps))


def share(runs: Iterable[Run], start: float, end: float, limit: int = LIMIT) -> float:
    """Return the share of the permits' time between two instants in which bodies ran."""
    body = sum(max(0.0, min(ended, end) - max(began, start)) for began, ended in runs)
    return body / (limit * (end - start))


def _distance(order: list[float], other: Iterable[float]) -> float:
    places = {n: place for place, n in enumerate(order)}
    return statistics.mean(abs(places[n] - place) for place, n in enumerate(other))
