"""Timetable: wake the loop when the first kept message acts: it begins then, or goes back to the broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any

from .kept_message import KeptMessage

OLD_ENTRIES = 100  # entries of messages no longer kept that may stay


class Timetable:
    """Has one entry for each message, the first first; entries of messages that are no longer kept are skipped."""

    def __init__(self, timer: Any, act: Callable[[], object]) -> None:
        self._timer = timer  # Celery's
        self._act = act  # begins what is ``due``, or gives it back
        self._entries: list[tuple[float, int, KeptMessage]] = []  # a heap
        self._numbers = count()
        self._wakes_at = inf  # monotonic time

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, kept: KeptMessage) -> None:
        """Note when this message acts; ``set_timer`` follows."""
        heappush(self._entries, (kept.acts_at, next(self._numbers), kept))

    def set_timer(self) -> None:
        """Wake when the first message is due; a timer that was set for a later time is ignored."""
        if self._entries and (at := self._entries[0][0]) < self._wakes_at:
            self._wakes_at = at
            self._timer.call_after(max(at - time.monotonic(), 0.0), self._wake, (at,))

    def _wake(self, at: float) -> None:
        if at == self._wakes_at:
            self._act()

    def due(self) -> Iterator[KeptMessage]:
        """Remove and yield the messages that act now; until the last of them, no timer is set for those that follow."""
        now = time.monotonic()
        while self._entries and self._entries[0][0] <= now:
            yield heappop(self._entries)[2]
        self._wakes_at = inf

    def tidy(self, messages: set[KeptMessage]) -> None:
        """Drop old entries once they are the larger part: each refers to its message, perhaps for an hour."""
        if len(self._entries) > 2 * len(messages) + OLD_ENTRIES:
            self._entries = [each for each in self._entries if each[2] in messages]
            heapify(self._entries)

    def clear(self) -> None:
        self._entries.clear()
        self._wakes_at = inf
