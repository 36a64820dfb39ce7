"""What the limit costs a task that never has to wait."""

from __future__ import annotations

import time

from .figure import Figure, interleaved, ratio
from .site import Site, site

TASKS = 2_000  # of one block
ROUNDS = 5
POOLS = (2, 4)


def measure() -> list[Figure]:
    figures = []
    for processes in POOLS:
        with site() as made:
            made.start(processes)
            names = ("plain", "limited", "plain_late", "limited_late")
            found = interleaved(
                ROUNDS, {name: lambda name=name: _rate(made, name) for name in names}
            )
        for acks, ending in (("early", ""), ("late", "_late")):
            limited, plain = found[f"limited{ending}"], found[f"plain{ending}"]
            label = f"LimitedTask to a plain task, {acks} acks, {processes} processes"
            detail = {"best tasks/s": f"{max(limited):.0f} limited and {max(plain):.0f} plain"}
            figures.append(ratio(label, limited, plain, bound=0.8, at_least=True, detail=detail))
    return figures


def _rate(made: Site, name: str) -> float:
    wanted = made.count("done") + made.stage((name, []) for _ in range(TASKS))
    start = made.release()
    made.wait(lambda: made.count("done") >= wanted, 120, f"{TASKS} tasks {name}")
    rate = TASKS / (time.monotonic() - start)
    made.wait(lambda: not made.client.hlen("unacked"), 30, "all acknowledgements")
    return rate
