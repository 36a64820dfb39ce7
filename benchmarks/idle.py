"""Give a small worker all messages while no permit is free, and a large one beside it nothing; then free all permits.

The figure is the time in seconds until all tasks are done: the large worker needs messages that the small one keeps.
"""

from __future__ import annotations

import contextlib
import time

from .figure import Figure
from .site import Site, site
from .ways import OURS, Way, ours

TASKS, SECONDS = 200, 0.5
SMALL, LARGE = 2, 20  # processes, and threads
LIMIT = 20
IDEAL = TASKS * SECONDS / LIMIT
WATCHED = 70.0  # seconds; the small worker alone needs 50
BOUNDS = {"default": 7.0, "park": 7.0, "requeue": 15.0}


def measure() -> list[Figure]:
    return [_figure(way) for way in ours()]


def _figure(way: Way) -> Figure:
    with site(before=way.before) as made:
        made.hold(LIMIT)
        made.start(SMALL, limit=LIMIT, pool="prefork")
        made.stage((way.task, [n, SECONDS]) for n in range(TASKS))
        made.release()
        made.wait(lambda: _refused(made) == TASKS, 60, "all are refused once", interval=0.1)
        [large] = made.start(LARGE, limit=LIMIT, pool="threads")
        began = made.let_go()
        with contextlib.suppress(TimeoutError):
            made.wait(lambda: made.count("done") >= TASKS, WATCHED, "all", interval=0.05)
        done = len({run[0] for run in made.lines("work")})
        ended = max((run[2] for run in made.lines("work")), default=time.time())
        by_large = len(list(made.lines("work", str(large.pid))))
    seconds = ended - began if done == TASKS else float("inf")
    label = f"{TASKS} of {SECONDS * 1000:g} ms at a worker of {SMALL}, one of {LARGE} is idle"
    figure = Figure(
        f"{label}, {way.label}: until all are done, {IDEAL:g} s at best",
        seconds,
        BOUNDS[way.task] if way in OURS else None,
        unit="s",
        detail={"done": done, "by the large one": by_large},
    )
    print(f"  {way.label}: {seconds:.1f} s", flush=True)
    return figure


def _refused(made: Site) -> int:
    return len({n for n, _ in made.lines("asked")})
