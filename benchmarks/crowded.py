"""Let 100,000 tasks wait at four small workers, by default, while no permit is free.

The figures are what that costs a worker in memory, and the tasks without a limit that are sent then in time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

import psutil

from tests.support.process import Process

from .app import LIMIT
from .figure import Figure
from .neighbours import probe, quantile_of
from .site import Site, site
from .ways import DEFAULT, Way

TASKS = 100_000
WORKERS, PROCESSES = 4, 2
BLOCKS, PROBES = 5, 100  # blocks of unlimited tasks; they are sent before and then
LONGEST, STALLED = 900.0, 20.0  # seconds until all wait, and without one more that waits


def measure(way: Way = DEFAULT, tasks: int = TASKS) -> list[Figure]:
    with site() as made:
        made.hold(LIMIT)
        workers = made.start(PROCESSES, WORKERS)
        alone = _late(made)
        idle = [memory(worker) for worker in workers]
        made.stage((way.task, [n, 0.1]) for n in range(tasks))
        made.release()
        waiting = _until_all_wait(made, tasks)
        beside = _late(made)
        full = [memory(worker) for worker in workers]
    what = f"{tasks:,} waiting at four workers of two processes, {way.label}"
    return [
        Figure(
            f"{what}: memory of a worker, to idle",
            max(b / a for a, b in zip(idle, full, strict=True)),
            1.1,
            detail={"MB idle": _mb(idle), "MB then": _mb(full), "refused": waiting},
        ),
        Figure(
            f"{what}: 95th percentile of the wait of unlimited tasks, to before",
            beside / alone,
            1.3,
            detail={"ms before": round(1000 * alone, 1), "ms then": round(1000 * beside, 1)},
        ),
    ]


def _late(made: Site) -> float:
    """Return the median of the blocks' 95th percentiles; if a task does not run, it is infinite."""
    try:
        blocks = [probe(made, PROBES) for _ in range(BLOCKS)]
    except TimeoutError:
        return math.inf
    return statistics.median(quantile_of(block, 0.95) for block in blocks)


def _until_all_wait(made: Site, tasks: int) -> int:
    """Return how many were refused, once all were or once none is any more."""
    start = moved = time.monotonic()
    seen = 0
    while seen < tasks and time.monotonic() < min(start + LONGEST, moved + STALLED):
        time.sleep(0.5)
        count = made.count("refused")
        if count > seen:
            seen, moved = count, time.monotonic()
    return seen


def memory(worker: Process) -> float:
    """Return the memory of a worker's processes; memory that they share counts once."""
    main = psutil.Process(worker.pid)
    processes = (main, *main.children(recursive=True))
    return float(sum(each.memory_full_info().pss for each in processes))


def _mb(sizes: Sequence[float]) -> int:
    return round(statistics.mean(sizes) / 1e6)
