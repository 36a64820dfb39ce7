"""What interrupts each step of a call interrupts nothing else."""

from __future__ import annotations

import gc
from collections.abc import Generator

from .strikes import struck_at

STEPS = 2  # of `make_objects`: its entry and its line


def test_what_the_collector_closes_is_no_step() -> None:
    """Such as a generator that the call before left behind: an error in it would be ignored, with a warning."""
    before = gc.get_threshold()
    gc.set_threshold(1)  # it looks for garbage at the next object
    try:
        leave_a_generator()
        assert not struck_at(STEPS, make_objects, {__file__})
        assert struck_at(STEPS - 1, make_objects, {__file__})
    finally:
        gc.set_threshold(*before)


def leave_a_generator() -> None:
    """Leave one that has begun, in a cycle, so that only the collector can end it."""
    owner: list[object] = []

    def steps() -> Generator[None]:
        yield
        owner.clear()

    owner.append(begun := steps())
    next(begun)


def make_objects() -> object:
    return [*map(list, [()] * 1000)]
