"""Leave out what was in vain lately."""

from __future__ import annotations

MOST_LEFT_OUT = 64  # calls, after each try in vain; then a try costs little more than none


class Backoff:
    """Decide which calls try a shorter way: after each try in vain twice as many calls as before leave it out.

    Threads may share it: a lost count costs a try.
    """

    def __init__(self, left_out: int = 0) -> None:
        self._left_out = left_out  # calls that are still to go without a try
        self._next_left_out = 1

    def is_due(self) -> bool:
        """Return whether this call is to try it."""
        if self._left_out > 0:
            self._left_out -= 1
            return False
        return True

    def note(self, *, sufficed: bool) -> None:
        """Note whether a try sufficed or was in vain."""
        if sufficed:
            self._left_out, self._next_left_out = 0, 1
        else:
            self._left_out = self._next_left_out
            self._next_left_out = min(2 * self._next_left_out, MOST_LEFT_OUT)
