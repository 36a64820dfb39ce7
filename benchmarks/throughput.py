"""Measure what the limit costs a task that never has to wait."""

from __future__ import annotations

import statistics
import time
from functools import partial

from .figure import Figure, interleaved, ratio
from .site import Site, site

TASKS = 2_000  # of one block
ROUNDS = 5
POOLS = (2, 4)

Spent = dict[str, list[float]]  # seconds of processor time of each block


def measure() -> list[Figure]:
    figures = []
    for processes in POOLS:
        spent: Spent = {}
        with site() as made:
            made.start(processes)
            kinds = ("plain", "asking", "limited")
            names = [*(f"{kind}{ending}" for ending in ("", "_late") for kind in kinds), "keyed"]
            found = interleaved(
                ROUNDS,
                {name: partial(rate, made, name, spent) for name in names},
            )
        for acks, ending in (("early", ""), ("late", "_late")):
            limited, plain = found[f"limited{ending}"], found[f"plain{ending}"]
            label = f"LimitedTask to a plain task, {acks} acks, {processes} processes"
            detail: dict[str, object] = {
                "best tasks/s": f"{max(limited):.0f} limited and {max(plain):.0f} plain"
            }
            figures.append(ratio(label, limited, plain, bound=0.8, at_least=True, detail=detail))
            figures.append(compared_cpu(found, f"limited{ending}", f"plain{ending}", spent))
            floor = "  the floor: a plain task that asks the server twice, to a plain task"
            asking = found[f"asking{ending}"]
            detail = {"best tasks/s": round(max(asking))}
            figures.append(ratio(f"{floor}, {acks} acks", asking, plain, detail=detail))
            figures.append(compared_cpu(found, f"asking{ending}", f"plain{ending}", spent))
        keyed = f"  LimitedTask with a key, to a plain task, early acks, {processes} processes"
        figures.append(ratio(keyed, found["keyed"], found["plain"]))
        figures.append(compared_cpu(found, "keyed", "plain", spent))
    return figures


def compared_cpu(found: dict[str, list[float]], other: str, plain: str, spent: Spent) -> Figure:
    """Compare processor time, which depends less than the rates on other programs of the machine."""
    less, more = (spent[name][-len(found[name]) :] for name in (plain, other))
    us = {name: round(1e6 * statistics.median(spent[name]) / TASKS) for name in (other, plain)}
    label = "  the same by processor time, of workers and server"
    return ratio(label, less, more, detail={f"us of {name}": each for name, each in us.items()})


def rate(made: Site, name: str, spent: Spent, kind: str = "") -> float:
    """Run a block of tasks; return how many ended in a second."""
    args = ["tenant"] if name == "keyed" else []
    wanted = made.count("done") + made.stage((name, args) for _ in range(TASKS))
    before = made.cpu() + made.server_cpu()
    start = made.release()
    made.wait(lambda: made.count("done") >= wanted, 120, f"{TASKS} tasks {name}")
    found = TASKS / (time.monotonic() - start)
    made.wait(lambda: not made.client.hlen("unacked"), 30, "all acknowledgements")
    spent.setdefault(kind or name, []).append(made.cpu() + made.server_cpu() - before)
    return found
