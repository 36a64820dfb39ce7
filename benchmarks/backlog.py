"""Run many tasks at a small limit in several ways: by default, parked, requeued, by hand, without a limit.

By hand is what people write without this library: a semaphore in Redis and ``retry(countdown=1)``. As many processes
as there are permits, which run tasks without a limit, show what the machine allows just then: no limit can do better.
These two ways can take very long, so they are watched only for a while.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .app import LIMIT
from .figure import Figure
from .outcome import Outcome, outcome_of
from .site import Site, site
from .ways import BY_HAND, OURS, UNLIMITED, Way, ours

WORKERS, PROCESSES = 2, 8
WATCHED = 40.0  # seconds
DELIVERIES = {"default": 2.05, "park": 2.05, "requeue": 1.1}


@dataclass(frozen=True)
class Crowd:
    """Describes a crowd of tasks; ``used`` is the least share of the permits' time that each task promises, if any.

    Joiners are workers that start when a third of the tasks is done, after the limit was raised to ``raised``. Then
    the share counts from the instant in which they are ready.
    """

    label: str
    tasks: Sequence[float]
    used: dict[str, float] = field(default_factory=dict)
    workers: int = WORKERS
    processes: int = PROCESSES  # of each worker
    joiners: int = 0
    limit: int = LIMIT
    raised: int | None = None

    @property
    def permits(self) -> int:
        """Return the limit at the end."""
        return self.raised or self.limit

    @property
    def ideal(self) -> float:
        """Return the seconds that all tasks would take if no permit of the first limit was ever idle."""
        return sum(self.tasks) / self.limit


def _mixed(count: int) -> list[float]:
    tasks = [0.05] * (count * 9 // 10) + [5.0] * (count // 10)
    random.Random(1).shuffle(tasks)  # the same order in each run
    return tasks


def bounds(default: float, requeue: float | None = None) -> dict[str, float]:
    """Return the least shares; what waits by default must not fall behind what is parked."""
    least = {"default": default, "park": default}
    return least if requeue is None else least | {"requeue": requeue}


HUNDRED = Crowd("2,000 of 100 ms", [0.1] * 2_000, bounds(0.92, 0.93))
SHORT = Crowd("2,000 of 20 ms", [0.02] * 2_000, bounds(0.7, 0.72))
# Fewer than 2,000: at five seconds each, all of them would take minutes.
MIXED = Crowd("400, 90 % of 50 ms and 10 % of 5 s", _mixed(400), bounds(0.92, 0.88))
LONG = Crowd("10,000 of 100 ms", [0.1] * 10_000, bounds(0.92))
JOINED = Crowd("2,000 of 100 ms, a worker joins", [0.1] * 2_000, bounds(0.92), workers=1, joiners=1)


def compared(crowd: Crowd) -> list[Figure]:
    ways = (*ours(), BY_HAND, UNLIMITED)
    outcomes = {way: played(way, crowd) for way in ways}
    figures = [figure for way in ways for figure in _figures(crowd, way, outcomes[way])]
    for way in OURS:
        for other in ways:
            if other not in OURS:
                label = f"{crowd.label}: share of the permits used, {way.label} to {other.label}"
                figures.append(Figure(label, outcomes[way].used / outcomes[other].used))
    return figures


def _figures(crowd: Crowd, way: Way, found: Outcome) -> list[Figure]:
    label, our = f"{crowd.label}, {way.label}", way in OURS
    most = DELIVERIES[way.task] if our else None
    return [
        Figure(f"{label}: deliveries per task", found.deliveries, most, unit=""),
        share_used(crowd, way, found),
        Figure(f"{label}: places displaced", found.displaced, 1.0 if our else None, unit=""),
    ]


def share_used(crowd: Crowd, way: Way, found: Outcome) -> Figure:
    least = crowd.used.get(way.task) if way in OURS else None
    label = f"{crowd.label}, {way.label}: share of the permits used"
    return Figure(label, found.used, least, at_least=True, unit="", detail=found.detail())


def played(way: Way, crowd: Crowd) -> Outcome:
    with site(before=way.before) as made:
        if way is UNLIMITED:
            made.start(crowd.permits)
        else:
            made.start(crowd.processes, crowd.workers, limit=crowd.limit)
        before, since = made.cpu(), 0.0
        made.stage((way.task, [n, seconds]) for n, seconds in enumerate(crowd.tasks))
        made.release()
        bounded = way in ours()  # so it counts as lost if a task does not run
        longest = WATCHED + (crowd.ideal if bounded else 0)
        if crowd.joiners and way is not UNLIMITED and _wait(made, len(crowd.tasks) // 3, longest):
            since = _joined(made, crowd)
        done = _wait(made, len(crowd.tasks), longest)
        until = 0.0 if done or not bounded else time.time()
        found = outcome_of(made, made.cpu() - before, crowd.permits, since, until)
    print(f"  {crowd.label}, {way.label}: {found.used:.2f}", flush=True)
    return found


def _joined(made: Site, crowd: Crowd) -> float:
    """Raise the limit, let the joiners join, and return when they were ready."""
    if crowd.raised:
        made.command("limit", "work", str(crowd.raised))
    made.start(crowd.processes, crowd.joiners, limit=crowd.limit)
    return time.time()


def _wait(made: Site, done: int, longest: float) -> bool:
    try:
        made.wait(lambda: made.count("done") >= done, longest, f"{done} tasks", interval=0.1)
    except TimeoutError:
        return False
    return True
