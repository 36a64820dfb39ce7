"""Limited tasks that are parked, and a backlog of tasks without a limit, in one queue of one set of workers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .app import LIMIT
from .backlog import PROCESSES, WORKERS
from .figure import Figure
from .outcome import share
from .site import Site, site

FREE, SECONDS = 5_000, 0.02
LIMITED = 2_000


@dataclass(frozen=True)
class Outcome:
    late: float  # seconds until all but 5 % of the unlimited ones had begun
    used: float  # of the permits' time, from the first wait until then
    began: int  # limited ones


def measure() -> list[Figure]:
    """The unlimited ones alone, then with the limited ones strewn among them.

    Five permits of 16 processes are taken from them: the ratio cannot be below 16/11, or 1.45, when processes are
    what is short. On a machine that is short of processors first it is another one.
    """
    alone, beside = _played(0), _played(LIMITED)
    label = f"beside {FREE:,} unlimited of 20 ms, {LIMITED:,} of 100 ms, parked"
    detail = {"limited that began meanwhile": beside.began}
    late = {"s alone": round(alone.late, 2), "beside": round(beside.late, 2)}
    return [
        Figure(
            f"{label}: share of the permits used while both wait",
            beside.used,
            0.9,
            at_least=True,
            unit="",
            detail=detail,
        ),
        Figure(
            f"{label}: 95th percentile of the unlimited ones' wait, to alone",
            beside.late / alone.late,
            1.5,
            detail=late,
        ),
    ]


def _played(limited: int) -> Outcome:
    tasks = [("free", [SECONDS])] * FREE + [("park", [n, 0.1]) for n in range(limited)]
    random.Random(1).shuffle(tasks)
    with site() as made:
        made.start(PROCESSES, WORKERS)
        made.stage(tasks)
        start = made.release_at()
        made.wait(lambda: made.count("free") >= FREE, 300, "the unlimited tasks", interval=0.1)
        # What runs is written down at its end.
        began = [at for [at] in made.lines("free")]
        late = sorted(began)[int(0.95 * len(began))]
        if not limited:
            return Outcome(late - start, 0.0, 0)
        ended = made.count("done") + LIMIT
        made.wait(lambda: made.count("done") >= ended, 60, "those that ran meanwhile")
        return _seen(made, start, late)


def _seen(made: Site, start: float, late: float) -> Outcome:
    runs = [(run[1], run[2]) for run in made.lines("work")]
    first = min(asked for _, asked in made.lines("asked"))
    return Outcome(late - start, share(runs, first, late), sum(began < late for began, _ in runs))
