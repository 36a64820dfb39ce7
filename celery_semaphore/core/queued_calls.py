"""QueuedCalls: the calls of coroutines that no thread has taken yet, releases first, then what is urgent."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from .acquisition import Run
from .permit import Claim
from .store import CALLED, Acquire, Release

# At once where calls wait for each other, as for the row of a resource: its other calls wait meanwhile.
RELEASED = 20


@dataclass(slots=True, eq=False)
class QueuedCall:
    """One call, with the future of its answer, if a coroutine may await it."""

    what: Acquire | Release | Run
    answer: asyncio.Future[Any] | None
    urgent: bool = False  # said of an acquire: the permit is kept for it, and for no other call
    begun: bool = False

    def begin(self) -> bool:
        """Return whether it is to be made: a release always, others unless their coroutine was cancelled."""
        self.begun = True  # before the look at the future, so that `is_dropped` is sure
        if isinstance(self.what, Release) or self.answer is None:
            return True
        return not self.answer.cancelled()

    def is_dropped(self) -> bool:
        """Return whether it was cancelled before it began, so that it is surely never made."""
        return self.answer is not None and self.answer.cancelled() and not self.begun


class QueuedCalls:
    """A queue that threads take from. Any thread may put a call in, also a signal handler, without a lock.

    A coroutine that gives up leaves a release. Were it not made before the next acquires, coroutines that give up again
    and again would leave places in line faster than they are released, and the permits would go to those places.
    """

    def __init__(self, at_once: Callable[[], int]) -> None:
        """``at_once`` threads take: if it is one, it takes many calls, which the store makes in one round trip."""
        self._at_once = at_once
        self._new = deque[QueuedCall]()
        # What wakes a thread. Each looks at the queue before it waits, so a few are enough for all calls.
        self._wakes = SimpleQueue[None]()
        # Of the next three. Reentrant: where no thread can be started, a signal handler takes all, too.
        self._taking = threading.RLock()
        self._releases: dict[tuple[Claim, ...], deque[QueuedCall]] = {}
        self._urgent = deque[QueuedCall]()
        self._others = deque[QueuedCall]()

    def __bool__(self) -> bool:
        return bool(self._new or self._releases or self._urgent or self._others)

    def put(self, call: QueuedCall) -> None:
        self._new.append(call)
        if self._wakes.qsize() < self._at_once():
            self._wakes.put(None)

    def take(self, timeout: float) -> list[QueuedCall]:
        """Return what to make together; wait for it for ``timeout`` seconds, then raise ``queue.Empty``.

        It may return nothing sooner.
        """
        if not (some := self._taken()):
            self._wakes.get(timeout=timeout)
            some = self._taken()
        return some

    def take_all(self) -> list[QueuedCall]:
        """Return all that is queued."""
        with self._taking:
            self._sort()
            return self._first(sys.maxsize)

    def _taken(self) -> list[QueuedCall]:
        with self._taking:
            self._sort()
            if self._at_once() == 1:
                return self._first(CALLED)
            return self._releases_of_one() or self._first(1)

    def _sort(self) -> None:
        with suppress(IndexError):
            while True:
                call = self._new.popleft()
                if isinstance(call.what, Release):
                    self._releases.setdefault(tuple(call.what.claims), deque()).append(call)
                else:
                    (self._urgent if call.urgent else self._others).append(call)

    def _first(self, most: int) -> list[QueuedCall]:
        some: list[QueuedCall] = []
        while self._releases and len(some) < most:
            some += self._releases_of_one(most - len(some))
        for queued in (self._urgent, self._others):
            while queued and len(some) < most:
                some.append(queued.popleft())
        return some

    def _releases_of_one(self, most: int = RELEASED) -> list[QueuedCall]:
        """Return releases of the same claims; those that are left come after those of all other claims."""
        for claims in self._releases:
            queued = self._releases.pop(claims)
            some = [queued.popleft() for _ in range(min(most, len(queued)))]
            if queued:
                self._releases[claims] = queued
            return some
        return []
