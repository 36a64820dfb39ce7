"""python -m benchmarks [name ...] [--on DEPLOYMENT ...] [--before DIR] [--json FILE]"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from . import (
    backlog,
    beside,
    crowded,
    deployment,
    fleet,
    idle,
    instructions,
    loops,
    metrics,
    neighbours,
    node,
    pairs,
    parked,
    postgresql,
    refused,
    report,
    sessions,
    surprises,
    throughput,
    totals,
    turns,
    ways,
)
from .figure import Figure

ALL: dict[str, Callable[[], list[Figure]]] = {
    "pairs": pairs.measure,
    "waiters": pairs.measure_waiters,
    "loops": loops.measure,
    "node": node.measure,
    "postgresql": postgresql.measure,
    "million": postgresql.measure_million,
    "totals": totals.measure,
    "throughput": throughput.measure,
    "instructions": instructions.measure,
    "refused": refused.measure,
    "metrics": metrics.measure,
    "neighbours": neighbours.measure,
    "backlog": partial(backlog.compared, backlog.HUNDRED),
    "short": partial(backlog.compared, backlog.SHORT),
    "mixed": partial(backlog.compared, backlog.MIXED),
    "long": partial(backlog.compared, backlog.LONG),
    "joined": partial(backlog.compared, backlog.JOINED),
    "small": partial(fleet.measure, *fleet.SMALL),
    "late": partial(fleet.measure, fleet.LATE),
    "scaled": partial(fleet.measure, *fleet.SCALED),
    "idle": idle.measure,
    "changed": partial(surprises.measure, *surprises.CHANGED),
    "burst": partial(surprises.measure, surprises.BURST),
    "skewed": partial(surprises.measure, surprises.SKEWED),
    "beside": beside.measure,
    "crowded": crowded.measure,
    "sessions": sessions.measure,
    "turns": turns.measure,
    "parked": parked.measure,
}
# The benchmarks of waiting, in each way; most of them on each deployment.
ANYWHERE = (
    *("backlog", "short", "mixed", "long", "joined", "small", "late", "scaled", "idle"),
    *("changed", "burst", "skewed", "beside", "crowded"),
)
WAITING = (*ANYWHERE, "sessions", "turns", "parked")


def main() -> int:
    given = _given()
    # An end by `timeout` or `kill` must end the servers and workers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.before:
        os.environ[ways.BEFORE] = str(given.before)
    found: dict[str, list[Figure]] = {}
    for name, on in _chosen(given):
        label = f"{name} on {on}" if name in ANYWHERE else name
        print(f"{label}: load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        os.environ[deployment.ON] = on
        found[label] = ALL[name]()
        report.show(label, found[label])
        if given.json:
            report.save(given.json, found)
    missed = [figure for group in found.values() for figure in group if figure.good is False]
    print(f"{len(missed)} figures beyond their bound" if missed else "all within their bounds")
    return 1 if missed else 0


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(ALL)}")
    parser.add_argument("--waiting", action="store_true", help=f"those of {', '.join(WAITING)}")
    known = tuple(deployment.DEPLOYMENTS)
    parser.add_argument(
        "--on",
        nargs="+",
        choices=known,
        default=known[:1],
        help=f"the servers and pools for each of {', '.join(ANYWHERE)}",
    )
    parser.add_argument("--before", type=_checkout, help="a checkout of the release before")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    if unknown := set(given.names) - ALL.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(ALL)}")
    return given


def _checkout(text: str) -> Path:
    path = Path(text).resolve()
    if not (path / "celery_semaphore").is_dir():
        raise argparse.ArgumentTypeError(f"{path} is no checkout of this repository")
    return path


def _chosen(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield each benchmark with each deployment on which it runs."""
    names = [*given.names, *(WAITING if given.waiting else ())]
    for name in names or ALL:
        for on in given.on if name in ANYWHERE else list(deployment.DEPLOYMENTS)[:1]:
            yield name, on


if __name__ == "__main__":
    sys.exit(main())
