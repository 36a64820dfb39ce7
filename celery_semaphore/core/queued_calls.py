"""QueuedCalls: the calls of coroutines that no thread has taken yet, releases first, then what is urgent."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from .acquisition import Run
from .store import CALLED, Acquire, Release

# At once where calls wait for each other, as for the row of a resource: its other calls wait meanwhile.
RELEASED = 20

MOST_BUSY = 1000  # resources

Resources = tuple[str, ...]


@dataclass(slots=True, eq=False)
class QueuedCall:
    """One call, with the future of its answer, if a coroutine may await it."""

    what: Acquire | Release | Run
    answer: asyncio.Future[Any] | None
    urgent: bool = False  # said of an acquire: the permit is kept for it, and for no other call
    begun: bool = False

    @property
    def resources(self) -> Resources:
        """Return what it may wait for."""
        return tuple(each.resource for each in self.what.claims)

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

    Where calls wait for each other, half of the threads make those of one resource at most, and of all resources that
    were busy the last time: while rows are locked, the others make the calls of other resources.
    """

    def __init__(self, at_once: Callable[[], int]) -> None:
        """``at_once`` threads take: if it is one, it takes many calls, which the store makes in one round trip."""
        self._at_once = at_once
        self._new = deque[QueuedCall]()
        # What wakes a thread. Each looks at the queue before it waits, so a few are enough for all calls.
        self._wakes = SimpleQueue[None]()
        # Of all below. Reentrant: where no thread can be started, a signal handler takes all, too.
        self._taking = threading.RLock()
        self._releases, self._urgent, self._others = _ByResources(), _ByResources(), _ByResources()
        self._made_now: list[Resources] = []  # one entry for each thread
        self._busy: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._new or self._releases or self._urgent or self._others)

    def put(self, call: QueuedCall) -> None:
        self._new.append(call)
        if self._wakes.qsize() < self._at_once():
            self._wakes.put(None)

    def take(self, timeout: float) -> list[QueuedCall]:
        """Return what to make together; wait for it for ``timeout`` seconds, then raise ``queue.Empty``.

        It may return nothing sooner. The thread calls ``are_made`` afterwards.
        """
        if not (some := self._taken()):
            self._wakes.get(timeout=timeout)
            some = self._taken()
        return some

    def are_made(self, some: Sequence[QueuedCall], *, busy: bool | None = False) -> None:
        """Let others of their resources be taken, at least by this thread: it looks at the queue before it waits.

        ``busy`` is None if all had been cancelled, so that the store was not asked.
        """
        resources = some[0].resources
        with self._taking:
            if resources in self._made_now:
                self._made_now.remove(resources)
            if busy is None:
                return
            if busy and len(self._busy) < MOST_BUSY:
                self._busy.update(resources)
            else:
                self._busy.difference_update(resources)

    def take_all(self, resources: Resources | None = None) -> list[QueuedCall]:
        """Return all that is queued, or all of these resources."""
        with self._taking:
            self._sort()
            return [
                call
                for queued in (self._releases, self._urgent, self._others)
                for call in queued.take_all(resources)
            ]

    def _taken(self) -> list[QueuedCall]:
        with self._taking:
            self._sort()
            if self._at_once() == 1:
                return self._many()
            some = (
                self._releases.take(RELEASED, self._may_be_taken)
                or self._urgent.take(1, self._may_be_taken)
                or self._others.take(1, self._may_be_taken)
            )
            if some:
                self._made_now.append(some[0].resources)
            return some

    def _sort(self) -> None:
        with suppress(IndexError):
            while True:
                call = self._new.popleft()
                if isinstance(call.what, Release):
                    self._releases.put(call)
                else:
                    (self._urgent if call.urgent else self._others).put(call)

    def _many(self) -> list[QueuedCall]:
        some: list[QueuedCall] = []
        for queued in (self._releases, self._urgent, self._others):
            while queued and len(some) < CALLED:
                some += queued.take(CALLED - len(some))
        return some

    def _may_be_taken(self, resources: Resources) -> bool:
        most = self._at_once() // 2
        if any(sum(each in now for now in self._made_now) >= most for each in resources):
            return False
        busy = self._busy
        return busy.isdisjoint(resources) or most > sum(
            not busy.isdisjoint(now) for now in self._made_now
        )


class _ByResources:
    """Calls in the order in which they came; but those of a resource that are left come after those of all others."""

    def __init__(self) -> None:
        self._calls: dict[Resources, deque[QueuedCall]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __len__(self) -> int:
        return sum(map(len, self._calls.values()))

    def put(self, call: QueuedCall) -> None:
        self._calls.setdefault(call.resources, deque()).append(call)

    def take(
        self, most: int, may_be_taken: Callable[[Resources], bool] = lambda _: True
    ) -> list[QueuedCall]:
        """Return calls of the same resources."""
        resources = next(filter(may_be_taken, self._calls), None)
        if resources is None:
            return []
        queued = self._calls.pop(resources)
        some = [queued.popleft() for _ in range(min(most, len(queued)))]
        if queued:
            self._calls[resources] = queued
        return some

    def take_all(self, resources: Resources | None) -> list[QueuedCall]:
        """Return all, or those of these resources."""
        some = [*self._calls] if resources is None else [resources]
        return [call for each in some for call in self._calls.pop(each, ())]
