"""Room: know how many grants a worker can use at once."""

from __future__ import annotations

from collections.abc import Callable

LEAST = 16  # short tasks end faster than the next question tells of grants


class Room:
    """Counts twice the processes of a pool, which may grow: each has a task to begin when it ends one."""

    def __init__(self, processes: Callable[[], int]) -> None:
        self._processes = processes
        self._was_full = False

    def size(self) -> int:
        """Return how many grants, which no process has taken up yet, the worker can use now."""
        return max(2 * self._processes(), LEAST)

    def opened(self, granted: int) -> bool:
        """Return whether half of it is free again, after an answer that left none: waits may have been passed over."""
        size = self.size()
        opened = self._was_full and granted <= size // 2
        self._was_full = granted >= size or (self._was_full and not opened)
        return opened
