"""Know when each held message acts: it begins then, or goes back to the broker."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from .held_message import HeldMessage

FEW = 100  # entries of messages no longer held that may stay


class Timetable:
    """Holds one entry for each message, the first first; entries of messages that are no longer held are skipped."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, HeldMessage]] = []  # a heap
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def first(self) -> float | None:
        """Return the monotonic time of the first entry."""
        return self._entries[0][0] if self._entries else None

    def add(self, held: HeldMessage) -> None:
        heappush(self._entries, (held.acts_at, next(self._numbers), held))

    def due(self, now: float) -> Iterator[HeldMessage]:
        """Remove and yield the messages that act now."""
        while self._entries and self._entries[0][0] <= now:
            yield heappop(self._entries)[2]

    def tidy(self, messages: set[HeldMessage]) -> None:
        """Drop old entries once they are the larger part: each keeps its message in memory, perhaps for an hour."""
        if len(self._entries) > 2 * len(messages) + FEW:
            self._entries = [each for each in self._entries if each[2] in messages]
            heapify(self._entries)

    def clear(self) -> None:
        self._entries.clear()
