"""Repeat the attempts of a call until one is kept, or the time of the call is over."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ...errors import StoreUnavailable
from .documents import Busy

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# The longest wait after the first attempt, or as long as that took; it doubles with each.
SHORTEST_S = 0.004
LONGEST_S = 0.2


class NotKept(StoreUnavailable):
    """No attempt of the call was kept in its time: the server answers, but others were faster."""


@dataclass
class Attempts:
    """The attempts of one call, which begin when this is made."""

    timeout: float  # seconds
    made: int = 0
    began: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)  # when the last attempt began

    def over(self) -> bool:
        """Return whether there is no time for another attempt."""
        return time.monotonic() - self.began >= self.timeout

    def wait(self, reason: str) -> None:
        """Wait before the next attempt; raise ``NotKept`` with the reason if the time is over."""
        took = time.monotonic() - self._last
        longest = min(LONGEST_S, max(SHORTEST_S, took) * 2**self.made)
        pause = random.uniform(0, longest)  # noqa: S311 - no secret
        self.made += 1
        if time.monotonic() + pause - self.began >= self.timeout:
            what = f"The call was not kept within {self.timeout:g} s ({self.made} attempts)"
            msg = f"{what}: {reason}"
            raise NotKept(msg, reason)
        time.sleep(pause)
        self._last = time.monotonic()


def repeated(call: Callable[[int], T], timeout: float) -> T:
    """Make a call, with the number of attempts before, until the server is not busy; bound it by the timeout."""
    attempts = Attempts(timeout)
    while True:
        try:
            return call(attempts.made)
        except Busy as error:
            attempts.wait(str(error))
