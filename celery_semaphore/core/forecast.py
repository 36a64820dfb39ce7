"""Forecast: when the turns of waits are expected, and so when it is worth asking for their grants.

A question comes after a quarter of the time until the first turn: what holds a permit for an hour is not asked for
each second, and what holds it for a moment leaves it idle only for a part of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

from .session import EXPECTED, HeldWait
from .ticket import nonce_of

SLOWEST_S = 1.0  # between two questions while anything waits
FASTEST_S = 0.005
QUESTIONS = 2000  # of all sessions together in a second
QUIET = 8  # a question comes at least after this part of the time in which the line did not move
FEW = 100  # waits that are over, and may stay in the heap


class Forecast:
    """The waits of one session by their expected turns, in monotonic time. For one thread."""

    def __init__(self, waits: Callable[[HeldWait], bool]) -> None:
        self._waits = waits  # whether one still does
        # The last is whether the turn is known, or only a time to ask again.
        self._heap: list[tuple[float, int, HeldWait, bool]] = []
        self._numbers = count()
        # Since when no wait came or left, and the line did not move; None after a change.
        self._changed_at: float | None = None
        # The seconds that the store expected until the first turn, when it was asked last.
        self._soonest: float | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, wait: HeldWait, turn: float) -> None:
        self._changed_at = None
        self._expect(wait, turn)

    def _expect(self, wait: HeldWait, turn: float, *, known: bool = True) -> None:
        heappush(self._heap, (turn, next(self._numbers), wait, known))

    def first(self) -> list[HeldWait]:
        """Take out those whose turns are to be asked for now: ``learn`` puts them back."""
        found: list[HeldWait] = []
        while self._heap and len(found) < EXPECTED:
            wait = heappop(self._heap)[2]
            if self._waits(wait):
                found.append(wait)
            else:
                self._changed_at = None
        return found

    def turns(self) -> dict[str, float | None]:
        """Return when each turn is expected, by nonce, without what is being asked for. This alone from any thread.

        None: the store says nothing of it, for it is paused, or away.
        """
        return {
            nonce_of(wait.ticket): turn if known else None
            for turn, _, wait, known in self._heap.copy()
            if self._waits(wait)
        }

    def learn(self, asked: Sequence[HeldWait], expected: Mapping[str, float], now: float) -> None:
        """Take in what the store expects, in seconds; of one that it says nothing of, nothing is expected soon.

        Each release makes that another number, also one of another session's permit.
        """
        soonest = min(expected.values(), default=None)
        if soonest != self._soonest:
            self._soonest, self._changed_at = soonest, None
        for wait in asked:
            nonce = nonce_of(wait.ticket)
            turn = now + expected.get(nonce, 4 * SLOWEST_S)
            self._expect(wait, turn, known=nonce in expected)

    def pause(self, sessions: int, now: float) -> tuple[float, float]:
        """Return the seconds until the next question, and those before which no crowd of newcomers brings it forward."""
        least = min(max(FASTEST_S, sessions / QUESTIONS), SLOWEST_S)
        if self._changed_at is None:
            self._changed_at = now
        turn = self._heap[0][0] - now if self._heap else 4 * SLOWEST_S
        quiet = (now - self._changed_at) / QUIET  # the mean says soon, and those that run take long
        return min(max(turn / 4, quiet, least), SLOWEST_S), least

    def tidy(self, waiting: int) -> None:
        """Drop what is over, once that is the larger part: it may have been expected much later."""
        if len(self._heap) > 2 * waiting + FEW:
            self._heap = [each for each in self._heap if self._waits(each[2])]
            heapify(self._heap)
