"""Run a backlog by many small workers, as users deploy them: all from the start, or some of them join.

What counts is where the messages lie: a worker with a free process can run only those that reach it.
"""

from __future__ import annotations

from .backlog import Crowd, bounds, played, share_used
from .figure import Figure
from .ways import UNLIMITED, ours


def _small(count: int, seconds: float, least: float) -> Crowd:
    label = f"{count} of {seconds * 1000:g} ms, eight workers of one process"
    return Crowd(label, [seconds] * count, bounds(least, 0.75), workers=8, processes=1)


# The shorter the task, the more of its time is the hand-over.
SMALL = (_small(160, 0.2, 0.88), _small(500, 0.04, 0.7), _small(100, 1.0, 0.88))
# Each has fewer processes than there are permits, so both are needed.
LATE = Crowd(
    "400 of 200 ms, a worker of three processes joins one",
    [0.2] * 400,
    bounds(0.88, 0.75),
    workers=1,
    processes=3,
    joiners=1,
)
# With limit 4 none waits before workers join; with 2 the first worker that is refused receives all messages.
SCALED = tuple(
    Crowd(
        f"{count} of 200 ms, limit {low} is raised to 8, and four workers of two processes join two",
        [0.2] * count,
        bounds(0.85, 0.75),
        processes=2,
        joiners=4,
        limit=low,
        raised=8,
    )
    for low, count in ((4, 800), (2, 480))
)


def measure(*crowds: Crowd) -> list[Figure]:
    return [
        share_used(crowd, way, played(way, crowd))
        for crowd in crowds
        for way in (*ours(), UNLIMITED)
    ]
