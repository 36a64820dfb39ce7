from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .order import WITH_WORKERS, shared_out

PROCESSES = 2


@dataclass(frozen=True)
class Item:
    """What is asked of a test."""

    path: Path
    number: int
    slow: bool = False

    def get_closest_marker(self, name: str) -> bool:
        return self.slow and name == "slow"


def some(name: str, count: int, *, slow: bool = False) -> list[Any]:
    return [Item(WITH_WORKERS.parent / name, number, slow) for number in range(count)]


def test_slow_tests_of_a_module_begin_the_slice_of_one_process() -> None:
    long, short, quick = some("long", 5, slow=True), some("b", 1, slow=True), some("core", 14)
    workers = some("worker", 4)
    ordered = shared_out([*long, *quick, *short, *workers], PROCESSES)
    half = len(ordered) // PROCESSES
    assert ordered[:7] == [*long, *workers[:2]]
    assert ordered[half : half + 3] == [*short, *workers[2:]]
    assert [item for item in ordered if item in quick] == quick


def test_none_is_left_out_where_all_are_slow() -> None:
    items = [*some("long", 9, slow=True), *some("core", 1)]
    assert sorted(shared_out(items, PROCESSES), key=items.index) == items
