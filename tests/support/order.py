"""The order in which several processes run the tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

WITH_WORKERS = Path(__file__).parents[1] / "worker"


def shared_out(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Let each process begin with its share of the long tests, and end with quick ones.

    xdist cuts the list into a slice for each process; one that is done takes over the end of another's slice.
    Tests of one module stay together, for its fixtures; the few that are marked slow do not.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    waits = [item for item in others if item.path.is_relative_to(WITH_WORKERS)]
    quick = [item for item in others if not item.path.is_relative_to(WITH_WORKERS)]
    return [
        item
        for process in range(processes)
        for item in (
            *slow[process::processes],
            *_slice(waits, process, processes),
            *_slice(quick, process, processes),
        )
    ]


def _slice(items: Sequence[Any], number: int, count: int) -> Sequence[Any]:
    return items[len(items) * number // count : len(items) * (number + 1) // count]
