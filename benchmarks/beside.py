"""Run limited tasks that wait, and a backlog of tasks without a limit, in one queue of one set of workers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .app import LIMIT
from .backlog import PROCESSES, WORKERS
from .figure import Figure
from .outcome import share
from .site import Site, site
from .ways import OURS, Way, ours

FREE, SECONDS = 5_000, 0.02
LIMITED = 2_000
ALL = (PROCESSES,) * WORKERS  # processes of each worker
SHORT_OF_FIVE = (5, 6)  # likewise, when five of sixteen are taken

Tasks = list[tuple[str, list[Any]]]


@dataclass(frozen=True)
class Outcome:
    late: float  # seconds until all but 5 % of the unlimited tasks had begun
    used: float  # share of the permits' time, from the first wait until then
    began: int  # limited tasks that had begun


def measure() -> list[Figure]:
    """Measure the unlimited tasks alone, then with the limited ones mixed in.

    Five permits take five of the 16 processes: the ratio cannot be below 16/11, or 1.45, if processes are scarce. If
    processors are scarce, Celery's own work for so many more messages counts as well. So the floor is measured with as
    many empty tasks without a limit, and five processes less.
    """
    alone = _late(ALL, [])
    floor = _late(SHORT_OF_FIVE, [("plain", [])] * LIMITED)
    what = f"{FREE:,} unlimited of 20 ms"
    figures = [figure for way in ours() for figure in _figures(way, what, alone, floor)]
    label = f"{what}, as many empty tasks and five processes less: 95th percentile of the wait"
    return [*figures, Figure(f"{label}, to alone", floor / alone)]


def _figures(way: Way, what: str, alone: float, floor: float) -> list[Figure]:
    beside = _beside(way)
    label = f"{what} beside {LIMITED:,} of 100 ms, {way.label}"
    late = {"s alone": round(alone, 2), "beside": round(beside.late, 2)}
    return [
        Figure(
            f"{label}: share of the permits used while both wait",
            beside.used,
            0.9 if way in OURS else None,
            at_least=True,
            unit="",
            detail={"limited that began meanwhile": beside.began},
        ),
        Figure(f"{label}: 95th percentile of the wait, to alone", beside.late / alone, detail=late),
        Figure(
            f"{label}: 95th percentile of the wait, to the floor",
            beside.late / floor,
            1.3 if way in OURS else None,
        ),
    ]


def _beside(way: Way) -> Outcome:
    with site(before=way.before) as made:
        made.start(PROCESSES, WORKERS)
        start, late = _passed(made, [(way.task, [n, 0.1]) for n in range(LIMITED)])
        ended = made.count("done") + LIMIT
        made.wait(lambda: made.count("done") >= ended, 60, "those that ran meanwhile")
        return _seen(made, start, late)


def _late(processes: Sequence[int], others: Tasks) -> float:
    with site() as made:
        for each in processes:
            made.start(each)
        start, late = _passed(made, others)
        return late - start


def _passed(made: Site, others: Tasks) -> tuple[float, float]:
    """Return when all tasks were sent, and when all but 5 % of the unlimited ones had begun."""
    tasks: Tasks = [("free", [SECONDS])] * FREE + others
    random.Random(1).shuffle(tasks)
    made.stage(tasks)
    start = made.release_at()
    made.wait(lambda: made.count("free") >= FREE, 300, "the unlimited tasks", interval=0.1)
    # A task writes its line at its end.
    began = [at for [at] in made.lines("free")]
    return start, sorted(began)[int(0.95 * len(began))]


def _seen(made: Site, start: float, late: float) -> Outcome:
    runs = [(run[1], run[2]) for run in made.lines("work")]
    first = min(asked for _, asked in made.lines("asked"))
    return Outcome(late - start, share(runs, first, late), sum(began < late for began, _ in runs))
