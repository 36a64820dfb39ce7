"""Forecast: predict the turns of waits, and so when to ask for their grants.

A session asks after a quarter of the time until the first turn. So it asks rarely while permits are held for an hour,
and while they are held for a moment, a granted permit is idle only for a part of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from .session import EXPECTED, HeldWait

SLOWEST_S = 1.0  # the longest time between two questions while anything waits
FASTEST_S = 0.005  # the shortest
QUESTIONS = 2000  # of all sessions together in a second
QUIET = 8  # a pause is at least the time in which the line did not move, divided by this
FEW = 100  # waits that are over and may stay in the heap


class Forecast:
    """Sorts the waits of one session by their expected turns, in monotonic time; for one thread."""

    def __init__(self, waits: Callable[[HeldWait], bool]) -> None:
        self._waits = waits  # returns whether a wait still waits
        # The last field is False if the turn is unknown, and the time is only one to ask again.
        self._heap: list[tuple[float, int, HeldWait, bool]] = []
        self._numbers = count()
        # The time since when no wait came or left, and the line did not move; None after a change.
        self._changed_at: float | None = None
        # The seconds until the first turn that the store expected at the last question.
        self._soonest: float | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, wait: HeldWait, turn: float) -> None:
        self._changed_at = None
        self._expect(wait, turn)

    def _expect(self, wait: HeldWait, turn: float, *, known: bool = True) -> None:
        heappush(self._heap, (turn, next(self._numbers), wait, known))

    def first(self) -> list[HeldWait]:
        """Take out the waits to ask about now; ``learn`` adds them again."""
        found: list[HeldWait] = []
        while self._heap and len(found) < EXPECTED:
            wait = heappop(self._heap)[2]
            if self._waits(wait):
                found.append(wait)
            else:
                self._changed_at = None
        return found

    def turns(self) -> dict[str, float | None]:
        """Return when each turn is expected, by nonce, without those taken out by ``first``; any thread may call this.

        None means that the turn is unknown, as the resource is paused or the store is away.
        """
        return {
            wait.ticket.nonce: turn if known else None
            for turn, _, wait, known in self._heap.copy()
            if self._waits(wait)
        }

    def learn(self, asked: Sequence[HeldWait], expected: Mapping[str, float], now: float) -> None:
        """Record the seconds until each turn that the store expects; a turn without an answer is taken for late.

        Each release changes these seconds, also that of another session's permit.
        """
        soonest = min(expected.values(), default=None)
        if soonest != self._soonest:
            self._soonest, self._changed_at = soonest, None
        for wait in asked:
            nonce = wait.ticket.nonce
            turn = now + expected.get(nonce, 4 * SLOWEST_S)
            self._expect(wait, turn, known=nonce in expected)

    def pause(self, sessions: int, now: float) -> tuple[float, float]:
        """Return the seconds until the next question, and the seconds before which no new wait brings it forward."""
        least = min(max(FASTEST_S, sessions / QUESTIONS), SLOWEST_S)
        if self._changed_at is None:
            self._changed_at = now
        turn = self._heap[0][0] - now if self._heap else 4 * SLOWEST_S
        quiet = (now - self._changed_at) / QUIET  # tasks that run may take longer than the mean
        return min(max(turn / 4, quiet, least), SLOWEST_S), least

    def tidy(self, waiting: int) -> None:
        """Drop waits that are over, once they are the larger part: their turns may have been expected much later."""
        if len(self._heap) > 2 * waiting + FEW:
            self._heap = [each for each in self._heap if self._waits(each[2])]
            heapify(self._heap)
