"""Run crowds that cannot be predicted: permits are held for another time than before, or clocks are off.

Each crowd is run by default, parked, requeued and by hand; the figure is the time in seconds until all tasks are done.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

from .backlog import PROCESSES, WORKERS
from .figure import Figure
from .site import site
from .ways import BY_HAND, Way, ours

LIMIT = 2
HOUR = 3600.0
WATCHED = 40.0  # seconds beyond the bound


@dataclass(frozen=True)
class Surprise:
    """Describes ``count`` tasks of ``seconds`` that come while two hold the permits for ``before`` seconds."""

    label: str
    count: int
    seconds: float
    bound: float  # seconds until all are done, after the two have ended
    before: float = 0.0
    clocks: tuple[float, ...] = (0.0,) * WORKERS  # seconds by which the workers' clocks are ahead

    @property
    def ideal(self) -> float:
        return self.count * self.seconds / LIMIT


def _after(hold: float) -> Surprise:
    return Surprise(f"100 of 50 ms after {hold:g} s of hold", 100, 0.05, 1.5 * 2.5 + 1, hold)


CHANGED = (_after(20.0), _after(60.0))
BURST = Surprise("50 of 200 ms at once, without history", 50, 0.2, 1.5 * 5 + 1)
SKEWED = Surprise("80 of 500 ms, clocks an hour off", 80, 0.5, 25.0, clocks=(HOUR, -HOUR))


def measure(*surprises: Surprise) -> list[Figure]:
    return [_played(way, each) for each in surprises for way in (*ours(), BY_HAND)]


def _played(way: Way, surprise: Surprise) -> Figure:
    total = surprise.count
    with site(before=way.before) as made:
        for clock in surprise.clocks:
            made.start(PROCESSES, limit=LIMIT, clock=clock)
        if surprise.before:
            total += LIMIT
            made.stage((way.task, [n, surprise.before]) for n in range(LIMIT))
            made.release()
            made.wait(lambda: made.count("begun") == LIMIT, 20, "the two")
        made.stage((way.task, [LIMIT + n, surprise.seconds]) for n in range(surprise.count))
        began = made.release_at()
        with contextlib.suppress(TimeoutError):
            longest = surprise.before + surprise.bound + WATCHED
            made.wait(lambda: made.count("done") >= total, longest, "all")
        ended = time.time()
        runs = list(made.lines("work"))
    done = sum(run[0] >= LIMIT for run in runs)
    if surprise.before:
        began = max(run[2] for run in runs if run[0] < LIMIT)
    seconds = ended - began if done == surprise.count else float("inf")
    label = f"{surprise.label}, {way.label}: until all are done, {surprise.ideal:g} s at best"
    bound = None if way is BY_HAND or way.before else surprise.bound
    return Figure(label, seconds, bound, unit="s", detail={"done": done, "of": surprise.count})
