"""Define a figure: one ratio of one run, with the bound that it has to keep."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """Holds a value; ``bound`` is the highest one that is allowed, or the lowest one if ``at_least``."""

    name: str
    value: float
    bound: float | None = None
    at_least: bool = False
    unit: str = "x"
    spread: tuple[float, float] | None = None  # the lowest and the highest block
    detail: Mapping[str, object] = field(default_factory=dict)

    @property
    def good(self) -> bool | None:
        if self.bound is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def interleaved(
    rounds: int, blocks: Mapping[str, Callable[[], float]], *, warm: int = 1
) -> dict[str, list[float]]:
    """Run each block once in each round, so that a disturbance of the machine disturbs all of them."""
    found: dict[str, list[float]] = {name: [] for name in blocks}
    for n in range(warm + rounds):
        for name, block in blocks.items():
            value = block()
            if n >= warm:
                found[name].append(value)
    return found


def ratio(
    name: str,
    over: list[float],
    under: list[float],
    *,
    bound: float | None = None,
    at_least: bool = False,
    detail: Mapping[str, object] | None = None,
) -> Figure:
    """Return the median of the rounds' ratios as a figure."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    value = statistics.median(ratios)
    spread = (min(ratios), max(ratios))
    return Figure(name, value, bound, at_least, "x", spread, detail or {})
