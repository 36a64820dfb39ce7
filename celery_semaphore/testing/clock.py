"""A clock for tests."""

from __future__ import annotations


class Clock:
    """Tells the time that it was told; give it to a store as ``now=``."""

    def __init__(self, now: float = 2_000_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
