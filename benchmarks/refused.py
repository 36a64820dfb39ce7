"""Measure what a message costs that must wait behind others: asked for by the main process, and tried by a process.

Nothing else happens: the semaphore is paused. The cost is processor time of the workers and of the server, with the
receipt of the message, and with its acknowledgement where it is parked.
"""

from __future__ import annotations

import time

from .backlog import PROCESSES, WORKERS
from .figure import Figure
from .site import site

COUNT = 3_000
SETTLED = 0.5  # seconds after the last message is in line, for its acknowledgement
LONGEST = 120.0
ASKED, TRIED = ("work", "work"), ("tried", "tried/all")  # the semaphore, and its resource


def measure() -> list[Figure]:
    return [_compared("requeue", "tried"), _compared("park", "tried_park")]


def _compared(asked: str, tried: str) -> Figure:
    ms = {f"ms {name}": _spent(name) for name in (asked, tried)}
    first, second = ms.values()
    label = f"processor time of a message that must wait, {asked}: asked for together, to tried by a process"
    detail = {name: round(value, 2) for name, value in ms.items()}
    return Figure(label, first / second, 0.9, detail=detail)


def _spent(task: str) -> float:
    """Return the milliseconds of processor time for each of many messages that are refused."""
    with site() as made:
        semaphore, resource = TRIED if task.startswith("tried") else ASKED
        made.store.set_limit(0, semaphore)
        made.start(PROCESSES, WORKERS)
        made.stage((task, [n, 0.0]) for n in range(COUNT))
        before = made.cpu() + made.server_cpu()
        made.release()
        made.wait(
            lambda: made.store.totals([resource])[0].waiting >= COUNT,
            LONGEST,
            "all wait",
            interval=0.2,
        )
        time.sleep(SETTLED)
        return 1000 * (made.cpu() + made.server_cpu() - before) / COUNT
