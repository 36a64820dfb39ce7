"""EarlyAcks: acknowledge early without a turn of the event loop for each task.

A turn costs more than the acknowledgement. So the process that got a permit does not wake the loop: while an early ack
is due, a timer reads the notes, and one more turn sends the acks of all tasks of that moment. A task that ends before
is acknowledged at its end, and needs no turn of its own.

How it fails: if the worker dies while an ack is due, the broker delivers the message again, as before the permit was
noted. A timer that Celery dropped with its connection is set again by a later task. Where no timer runs, such as
without a hub, the thread that releases permits reads the notes twice a second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

PERIOD_S = 0.01  # between two reads of the notes while an ack is due
LONGEST_S = 1.0  # of reading for one task: then its store hangs, and two reads a second are enough
DROPPED_S = 1.0  # a timer that is overdue for so long does not come any more


class Acknowledged(Protocol):
    """A request that is acknowledged early."""

    @property
    def ack_is_due(self) -> bool:
        """Whether it is still to be acknowledged when its permit is noted."""


class EarlyAcks:
    """Reads the notes soon, as long as an early ack is due.

    The loop's thread calls it, and at a shutdown Celery's thread of timers: they share only atomic operations.
    """

    def __init__(
        self, drain: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._drain = drain
        self._clock = clock
        self._due = deque[tuple[float, Acknowledged]]()  # each with the end of its reading
        self._fires_at = 0.0
        self._hub: Any = None

    def serve(self, hub: Any) -> None:
        """Set timers in this hub from now on."""
        self._hub = hub

    def close(self) -> None:
        """Set no timer any more: the hub ends with its worker."""
        self._hub, self._fires_at = None, 0.0
        self._due.clear()

    def expect(self, request: Acknowledged) -> None:
        """Have the notes read in a moment, in which the task of this request gets its permit."""
        if self._hub is not None and request.ack_is_due:
            self._due.append((self._clock() + LONGEST_S, request))
            self._set_timer()

    def _set_timer(self) -> None:
        now, hub = self._clock(), self._hub
        if hub is None or now < self._fires_at + DROPPED_S:
            return
        self._fires_at = now + PERIOD_S
        hub.call_later(PERIOD_S, self._read)

    def _read(self) -> None:
        if self._clock() < self._fires_at:
            return  # this timer was taken for dropped, and another one has been set
        self._fires_at = 0.0
        self._drain()
        for _ in range(len(self._due)):
            until, request = self._due.popleft()
            if request.ack_is_due and self._clock() < until:
                self._due.append((until, request))
        if self._due:
            self._set_timer()
