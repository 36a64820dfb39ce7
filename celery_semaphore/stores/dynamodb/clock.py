"""Know the time of a server that says it in whole seconds, in the ``Date`` header of each answer.

The header was made between the moments when the request was sent and when the answer was received. So each answer
bounds by how much the server's clock is ahead of this process's monotonic one, and the bounds of many answers have
little between them: the clock of this host is not asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from ...errors import StoreUnavailable
from ..encoding import microseconds

if TYPE_CHECKING:
    from collections.abc import Callable

DRIFT = 100e-6  # by how much a second of this host may differ from one of the server
SKEW = 0.05  # seconds by which the hosts behind one address may differ; it moves the middle of no bounds


@dataclass(frozen=True)
class Bounds:
    """The least and the most that the server's clock may be ahead, as known at one moment of the monotonic clock."""

    least: float
    most: float
    at: float

    def widened(self, at: float) -> Bounds:
        """Return what is left of this knowledge at a later moment."""
        drift = DRIFT * max(0.0, at - self.at)
        return Bounds(self.least - drift, self.most + drift, at)

    def met(self, other: Bounds) -> Bounds:
        """Return what both say, or the other alone if they do not agree: one of the clocks was set."""
        least, most = max(self.least, other.least), min(self.most, other.most)
        return Bounds(least, most, other.at) if least <= most else other


class ServerClock:
    """Tells the server's time by the answers that it heard. Of two threads that hear at once one may be ignored."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._bounds: Bounds | None = None

    def hear(self, date: str, sent: float, received: float) -> None:
        """Note an answer with this header."""
        said = seconds_of(date)
        new = Bounds(said - received - SKEW, said + 1 - sent + SKEW, received)
        self._bounds = self._bounds.widened(received).met(new) if self._bounds else new

    def now(self, newest: int = 0) -> int:
        """Return the time in microseconds, not before ``newest`` if the server's clock may have reached that."""
        if self._bounds is None:
            raise StoreUnavailable(
                "The server has not said the time: its answers have no Date header"
            )
        at = self.monotonic()
        bounds = self._bounds.widened(at)
        middle = microseconds((bounds.least + bounds.most) / 2 + at)
        return max(middle, min(newest, microseconds(bounds.most + at)))

    def next_second(self) -> float:
        """Return for how long to wait for an answer that says most: about half of what may be is then ruled out.

        At the time that seems to be a whole second the answer says whether that second has begun.
        """
        return 1.0 - self.now() % 1_000_000 / 1e6

    @property
    def error(self) -> float:
        """The most that ``now`` may be wrong by, in seconds."""
        if self._bounds is None:
            return float("inf")
        bounds = self._bounds.widened(self.monotonic())
        return (bounds.most - bounds.least) / 2


@lru_cache(maxsize=64)
def clock_of(_address: str) -> ServerClock:
    """Return the clock of a server, which all stores of this process share, and its children after a fork inherit."""
    return ServerClock()


@lru_cache(maxsize=4)
def seconds_of(date: str) -> float:
    """Return the time that a header says; requests within one second have the same one."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError) as error:
        msg = f"The server has a Date header that is no date: {date!r}"
        raise StoreUnavailable(msg) from error
