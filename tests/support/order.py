"""The order in which several processes run the tests."""

from collections.abc import Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import pytest

WITH_WORKERS = Path(__file__).parents[1] / "worker"


def shared_out(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Let each process begin with its share of the long tests, and end with quick ones.

    xdist cuts the list into a slice for each process; one that is done takes over the end of another's slice.
    Tests of one module stay together, for its fixtures: those that are marked slow, and all others.
    """
    marked = [item for item in items if item.get_closest_marker("slow")]
    slow = [[*module] for _, module in groupby(marked, key=lambda item: item.path)]
    others = [item for item in items if not item.get_closest_marker("slow")]
    waits = [item for item in others if item.path.is_relative_to(WITH_WORKERS)]
    quick = [item for item in others if not item.path.is_relative_to(WITH_WORKERS)]
    beginnings = [
        [*chain.from_iterable(slow[process::processes]), *_slice(waits, process, processes)]
        for process in range(processes)
    ]
    rest = iter(quick)
    ordered = list[pytest.Item]()
    for process, beginning in enumerate(beginnings):
        room = len(_slice(items, process, processes)) - len(beginning)
        ordered += [*beginning, *islice(rest, max(room, 0))]
    return [*ordered, *rest]


def _slice(items: Sequence[Any], number: int, count: int) -> Sequence[Any]:
    return items[len(items) * number // count : len(items) * (number + 1) // count]
