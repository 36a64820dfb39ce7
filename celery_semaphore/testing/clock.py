"""Provide a clock for tests."""

from __future__ import annotations


class Clock:
    """Returns the time that the test sets; pass it to a store as ``now=``."""

    def __init__(self, now: float = 2_000_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
