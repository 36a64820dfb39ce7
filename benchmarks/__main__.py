"""python -m benchmarks [name ...] [--json FILE]"""

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import (
    backlog,
    beside,
    metrics,
    neighbours,
    pairs,
    parked,
    postgresql,
    report,
    sessions,
    surprises,
    throughput,
    totals,
    turns,
)
from .figure import Figure
from .site import STORE, STORES

ALL: dict[str, Callable[[], list[Figure]]] = {
    "pairs": pairs.measure,
    "waiters": pairs.measure_waiters,
    "postgresql": postgresql.measure,
    "million": postgresql.measure_million,
    "totals": totals.measure,
    "throughput": throughput.measure,
    "metrics": metrics.measure,
    "neighbours": neighbours.measure,
    "backlog": partial(backlog.compared, backlog.HUNDRED),
    "short": partial(backlog.compared, backlog.SHORT),
    "mixed": partial(backlog.compared, backlog.MIXED),
    "long": partial(backlog.compared, backlog.LONG),
    "joined": partial(backlog.compared, backlog.JOINED),
    "late": partial(backlog.compared, backlog.LATE),
    "changed": partial(surprises.measure, *surprises.CHANGED),
    "burst": partial(surprises.measure, surprises.BURST),
    "skewed": partial(surprises.measure, surprises.SKEWED),
    "beside": beside.measure,
    "sessions": sessions.measure,
    "turns": turns.measure,
    "parked": parked.measure,
}
# The benchmarks of waiting, in each way.
WAITING = (
    *("backlog", "short", "mixed", "long", "joined", "late", "changed", "burst", "skewed"),
    *("beside", "sessions", "turns", "parked"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(ALL)}")
    parser.add_argument("--waiting", action="store_true", help=f"those of {', '.join(WAITING)}")
    parser.add_argument("--store", choices=STORES, default=STORES[0], help="of what workers run")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    if unknown := set(given.names) - ALL.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(ALL)}")
    os.environ[STORE] = given.store
    found: dict[str, list[Figure]] = {}
    names = [*given.names, *(WAITING if given.waiting else ())]
    for name in names or ALL:
        print(f"{name}: load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        found[name] = ALL[name]()
        report.show(name, found[name])
        if given.json:
            report.save(given.json, found)
    missed = [figure for group in found.values() for figure in group if figure.good is False]
    print(f"{len(missed)} figures beyond their bound" if missed else "all within their bounds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
