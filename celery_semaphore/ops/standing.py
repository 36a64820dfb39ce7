"""Find limits and pauses of operators that have stood for so long that they may be forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.store import Store
from .answers import until
from .directory import describe
from .text import duration, printable

LONG_S = 86400.0  # a day


def standing(store: Store) -> Iterator[str]:
    """Say which limits and pauses are older than a day, and what ends each."""
    for resource, each in sorted(store.decisions().items()):
        what = printable(describe(resource))
        if each.pause and each.pause.lasted > LONG_S:
            lasts = f"for {duration(each.pause.lasted)}, {until(each.pause.left)}"
            yield f"{what} has been paused {lasts}; `resume` ends that."
        if each.limit is not None and (each.limited_for or 0.0) > LONG_S:
            since = f"{duration(each.limited_for)} ago"
            yield f"{what} has limit {each.limit}, set by an operator {since}; `limit --clear` clears it."
