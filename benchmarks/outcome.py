"""What became of a crowd of tasks that was played in one way."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from .app import LIMIT
from .site import Site

Run = tuple[float, float]  # when a body began and when it ended


@dataclass(frozen=True)
class Outcome:
    """``displaced`` is the mean distance, in places, between two orders of the same tasks.

    One is the order in which they first asked for a permit, whatever the order is in which they were sent: a
    worker shuffles what it prefetches. Of our tasks that is the instant in which the store made the ticket, which
    the refusal shows, or granted the permit at once; of those by hand it is their process's clock right before
    it asks. The other is the order in which their bodies began, and, of ``granted``, in which the
    store gave the permits, by their tokens.
    """

    deliveries: float  # per task that ended
    used: float  # share of the permits' time in which bodies ran
    displaced: float
    granted: float
    done: int
    seconds: float
    cpu: float  # seconds of the workers' processor time per task that ended

    def detail(self) -> dict[str, object]:
        return {
            "tasks done": self.done,
            "seconds": round(self.seconds, 1),
            "places displaced when granted": round(self.granted, 2),
            "CPU ms per task": round(1000 * self.cpu, 1),
        }


def outcome_of(made: Site, cpu: float, limit: int = LIMIT) -> Outcome:
    """Of those that ended; a longer one that ran when the watching ended is left out."""
    runs = sorted(made.lines("work"), key=lambda run: run[1])
    began, ended = runs[0][1], max(run[2] for run in runs)
    asked = {n: admitted for n, _, _, admitted in runs}
    for n, instant in made.lines("asked"):
        if n in asked:
            asked[n] = min(asked[n], instant)
    first_come = sorted(asked, key=asked.__getitem__)
    return Outcome(
        deliveries=made.count("received") / len(runs),
        used=share([(run[1], run[2]) for run in runs], began, ended, limit),
        displaced=_distance(first_come, (run[0] for run in runs)),
        granted=_distance(first_come, (run[0] for run in sorted(runs, key=lambda run: run[3]))),
        done=len(runs),
        seconds=ended - began,
        cpu=cpu / len(runs),
    )


def share(runs: Iterable[Run], start: float, end: float, limit: int = LIMIT) -> float:
    """Of the permits' time between two instants, how much bodies ran."""
    body = sum(max(0.0, min(ended, end) - max(began, start)) for began, ended in runs)
    return body / (limit * (end - start))


def _distance(order: list[float], other: Iterable[float]) -> float:
    places = {n: place for place, n in enumerate(order)}
    return statistics.mean(abs(places[n] - place) for place, n in enumerate(other))
