"""Measure what waiting tasks cost the tasks without a limit on the same worker."""

from __future__ import annotations

import statistics
import time

from .deployment import QUEUE
from .figure import Figure, interleaved, ratio
from .site import Site, site

PROCESSES = 8  # three are left while five tasks have a permit
WAITING = 200
PROBES = 100  # unlimited tasks of one block
EVERY = 0.05  # seconds between two of them
ROUNDS = 3
QUANTILES = {"median": 0.5, "95th percentile": 0.95}


def measure() -> list[Figure]:
    with site() as made:
        made.start(PROCESSES)
        seen: dict[str, list[list[float]]] = {"alone": [], "beside": []}
        blocks = {
            "alone": lambda: _block(made, seen["alone"], 0),
            "beside": lambda: _block(made, seen["beside"], WAITING),
        }
        interleaved(ROUNDS, blocks, warm=0)
    figures = []
    for name, quantile in QUANTILES.items():
        alone, beside = ([quantile_of(block, quantile) for block in seen[kind]] for kind in seen)
        detail = {
            "ms alone": round(1000 * statistics.median(alone), 1),
            "beside": round(1000 * statistics.median(beside), 1),
        }
        label = f"latency of unlimited tasks beside {WAITING} waiting ones to alone, {name}"
        figures.append(ratio(label, beside, alone, detail=detail))
    return figures


def _block(made: Site, into: list[list[float]], waiting: int) -> float:
    """Send unlimited tasks at a steady pace, and record how long each waited for its start."""
    before = made.count("done")
    if waiting:
        made.stage(("requeue", [n, 0.25]) for n in range(waiting))
        made.release()
        # Each new task occupies a process for a moment; the measurement begins once they wait in line.
        made.wait(lambda: made.waiting() >= WAITING * 0.7, 30, "the crowd in line")
        made.wait(lambda: not made.client.llen(QUEUE), 30, "an empty queue")
    latencies = probe(made, PROBES)
    left = before + waiting - made.count("done")
    assert not waiting or left > 0, "the crowd was gone before the end of the block"
    into.append(latencies)
    made.wait(lambda: made.count("done") >= before + waiting, 120, "the end of the crowd")
    return float(left)


def probe(made: Site, count: int) -> list[float]:
    """Send unlimited tasks at a steady pace, and return how long each waited for its start."""
    made.forget_lines()
    start = time.monotonic()
    for n in range(count):
        time.sleep(max(0.0, start + n * EVERY - time.monotonic()))  # a pace, not a wait
        made.sender.send_task("latency", [time.time()])
    made.wait(lambda: len(list(made.lines("latency"))) >= count, 60, "all unlimited tasks")
    return [latency for [latency] in made.lines("latency")]


def quantile_of(values: list[float], quantile: float) -> float:
    return sorted(values)[int(quantile * (len(values) - 1))]
