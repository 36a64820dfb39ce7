"""Doubts: what looks wrong in the tasks of an app and may yet be meant. A worker says it at its start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .spelling import misspelt


def doubts(tasks: Iterable[Any]) -> Iterator[str]:
    """What to warn of."""
    for task in tasks:
        if hasattr(task, "semaphore_options"):
            yield from (f"task {task.name}: {found}" for found in misspelt(type(task)))
