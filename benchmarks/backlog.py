"""A crowd at a small limit: how often each task is delivered, and how much of the permits is used.

Beside it, in the same run, what people write by hand: a semaphore in Redis and `retry(countdown=1)`.
It can take very long, so it is watched for a while only; the use of its permits is that of this while.
"""

from __future__ import annotations

import contextlib
import random
import statistics
from dataclasses import dataclass

from .app import LIMIT
from .figure import Figure
from .site import Site, site

WORKERS, PROCESSES = 2, 8
LONGEST = 60.0  # seconds that the hand-written one is watched
SHORT = [0.1] * 2_000
# Fewer than 2,000: at five seconds each, all of them would take minutes.
MIXED = [0.05] * 360 + [5.0] * 40


@dataclass(frozen=True)
class Outcome:
    deliveries: float  # per task that ended
    used: float  # share of the permits' time in which bodies ran
    displaced: float  # places, on average, between coming and running
    done: int
    seconds: float
    cpu: float  # seconds of processor time per task that ended
    permits: float  # share of the permits that were out, whenever somebody looked

    def detail(self) -> dict[str, object]:
        return {
            "tasks done": self.done,
            "seconds": round(self.seconds, 1),
            "deliveries per task": round(self.deliveries, 1),
            "places displaced": round(self.displaced),
            "permits out": round(self.permits, 2),
            "CPU ms per task": round(1000 * self.cpu),
        }


def measure() -> list[Figure]:
    return _compared("2,000 of 100 ms", SHORT)


def measure_mixed() -> list[Figure]:
    tasks = list(MIXED)
    random.Random(1).shuffle(tasks)  # the same order in each run
    return _compared("400, 90 % of 50 ms and 10 % of 5 s", tasks)


def _compared(label: str, tasks: list[float]) -> list[Figure]:
    ideal = sum(tasks) / LIMIT
    limited = _played("work", tasks, longest=3 * ideal + 60)
    parked = _played("parked", tasks, longest=3 * ideal + 60)
    by_hand = _played("by_hand", tasks, longest=LONGEST)
    return [
        Figure(f"{label}, parked: deliveries per task", parked.deliveries, 2.05, unit=""),
        Figure(
            f"{label}, parked: share of the permits used",
            parked.used,
            0.92,
            at_least=True,
            unit="",
            detail=parked.detail(),
        ),
        Figure(f"{label}: deliveries per task", limited.deliveries, 8.0, unit=""),
        Figure(
            f"{label}: share of the permits used",
            limited.used,
            0.88,
            at_least=True,
            unit="",
            detail=limited.detail(),
        ),
        Figure(
            f"{label}: that share to the one of retry(countdown=1)",
            limited.used / by_hand.used,
            2.0,
            at_least=True,
            detail={"by hand: share": round(by_hand.used, 2)} | by_hand.detail(),
        ),
        Figure(
            f"{label}: deliveries of retry(countdown=1) to ours",
            by_hand.deliveries / limited.deliveries,
        ),
    ]


def _played(name: str, tasks: list[float], longest: float) -> Outcome:
    with site() as made:
        made.start(PROCESSES, WORKERS)
        before = made.cpu()
        made.stage((name, [n, seconds]) for n, seconds in enumerate(tasks))
        made.release()
        permits: list[int] = []

        def over() -> bool:
            permits.append(made.store.snapshot("work", 0).occupied)
            return made.count("done") >= len(tasks)

        with contextlib.suppress(TimeoutError):
            made.wait(over, longest, "the end of the backlog", interval=0.1)
        return _outcome(made, made.cpu() - before, statistics.mean(permits))


def _outcome(made: Site, cpu: float, permits: float) -> Outcome:
    # Longer runs began earlier than they end: those that had not ended at the end are left out.
    runs = sorted(made.lines("work"), key=lambda run: run[1])
    began, ended = runs[0][1], max(run[2] for run in runs)
    body = sum(run[2] - run[1] for run in runs)
    places = {n: place for place, n in enumerate(sorted(int(run[0]) for run in runs))}
    displaced = [abs(places[int(run[0])] - place) for place, run in enumerate(runs)]
    return Outcome(
        deliveries=made.count("received") / len(runs),
        used=body / (LIMIT * (ended - began)),
        displaced=statistics.mean(displaced),
        done=len(runs),
        seconds=ended - began,
        cpu=cpu / len(runs),
        permits=permits / LIMIT,
    )
