"""Recorder: count events in a thread of its own.

Events come from an event loop, from threads that renew permits or move messages, and from signal handlers, which may
have interrupted any of these. So an event is only put into a queue, by one atomic operation without a lock. Metrics of
OpenTelemetry have locks, and a signal handler that found one taken by its own thread would wait for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..core.background_thread import BackgroundThread
from ..core.events import Event, PermitLostEvent, PermitRestoredEvent
from .figures import Figure, Figures
from .tally import Tally

COUNT_EVERY_S = 0.5  # a request of Prometheus counts at once


class Recorder:
    """Counts events in a tally, and passes each figure on to ``also``; it listens to an announcer."""

    def __init__(
        self,
        task_of: Callable[[str], str],
        also: Callable[[Figure], object] | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """``task_of`` names the task of a holder. Events are forgotten while they are not ``wanted``."""
        self.figures = Figures()
        self._task_of = task_of
        self._also = also
        self._wanted = wanted
        self._tally = Tally()
        self._queue: deque[tuple[Event, str]] = deque()
        self._lock = threading.Lock()  # between readers; no listener and no signal handler takes it
        self._stopped = threading.Event()
        self._thread = BackgroundThread(
            "celery-semaphore-counts", self._wait_then_count, self._stopped.is_set, self.count
        )

    def __call__(self, event: Event) -> None:
        """Queue an event."""
        task = ""
        if isinstance(event, PermitLostEvent | PermitRestoredEvent):
            task = self._task_of(event.permit.holder)  # known only until the task ends
        self._queue.append((event, task))

    def start(self) -> None:
        """Start to count."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Count what was queued, and end the thread, for ``timeout`` seconds at most."""
        self._stopped.set()
        self._thread.join(timeout)

    def count(self) -> None:
        """Count what was queued."""
        with self._lock:
            self._count()

    @contextmanager
    def counted(self) -> Iterator[Tally]:
        """Yield the tally with all events so far; nothing changes it meanwhile."""
        with self._lock:
            self._count()
            yield self._tally

    @property
    def tally(self) -> Tally:
        """The tally; any thread may read its counts."""
        return self._tally

    def _count(self) -> None:
        if not self._wanted():
            self._queue.clear()
        while self._queue:
            event, task = self._queue.popleft()
            for figure in self.figures.of(event, task):
                self._tally.add(*figure)
                if self._also is not None:
                    self._also(figure)

    def _wait_then_count(self) -> None:
        self._stopped.wait(COUNT_EVERY_S)
        self.count()
