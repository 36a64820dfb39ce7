"""Scheduler: run a worker's jobs with waiting messages in a thread of their own, and retry them until they succeed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from ...core.background_thread import BackgroundThread
from .job import CannotPark, Job, RetryLater

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2  # before the second attempt; it doubles with each further one
LONGEST_PAUSE_S = 5.0  # between two attempts


@dataclass(slots=True, order=True)
class _Entry:
    due: float  # when to try
    job: Job = field(compare=False)
    since: float = field(compare=False)
    attempts: int = field(default=0, compare=False)


class Scheduler:
    """Runs jobs in one thread; a failed job is retried with growing pauses, and delays no other job."""

    def __init__(
        self,
        timeout: float,
        done: Callable[[], None],
        at_end: Callable[[], None],
        not_parked: Callable[[Any, CannotPark], None],
    ) -> None:
        self._timeout = timeout
        self._done = done  # called after each attempt
        self._not_parked = not_parked  # takes a job that cannot be done, and why
        self._entries: list[_Entry] = []  # a heap
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread = BackgroundThread(
            "celery-semaphore-messages", self._run_next, lambda: self._closed, at_end
        )

    def add(self, job: Job) -> None:
        """Run this job soon."""
        now = time.monotonic()
        with self._changed:
            heappush(self._entries, _Entry(0.0 if job.urgent else now, job, now))
            self._thread.start()
            self._changed.notify()

    def flush(self, timeout: float) -> None:
        """Try each job at once, and wait until all are done, for ``timeout`` seconds at most."""
        now = time.monotonic()
        with self._changed:
            for entry in self._entries:
                entry.due = min(entry.due, now)  # a shutdown must not wait for a pause
            heapify(self._entries)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._entries and not self._busy, timeout)

    def close(self, timeout: float) -> None:
        """End the thread, waiting ``timeout`` seconds at most for the running job; dropped jobs lose no message."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout)

    def _run_next(self) -> None:
        if (entry := self._next()) is None:
            return
        try:
            self._try(entry)
        except Exception:
            logger.exception("%s: failed, and could not be given up", entry.job.name)
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
            self._done()

    def _next(self) -> _Entry | None:
        """Wait for the next job that is due; return None when the scheduler is closed."""
        with self._changed:
            while not self._closed:
                pause = self._entries[0].due - time.monotonic() if self._entries else None
                if pause is not None and pause <= 0:
                    self._busy = True
                    return heappop(self._entries)
                self._changed.wait(pause)
        return None

    def _try(self, entry: _Entry) -> None:
        try:
            entry.job.run()
        except CannotPark as error:
            self._not_parked(entry.job, error)
        except RetryLater as error:
            logger.debug("%s: not now, %s", entry.job.name, error)
            self._again(entry, error, error.left)
        except Exception as error:  # noqa: BLE001 - any error may pass
            # Warn once: the job may fail for hours.
            level = logging.DEBUG if entry.attempts else logging.WARNING
            logger.log(level, "%s: not yet, %r", entry.job.name, error)
            self._again(entry, error, pause_after(entry.attempts))
            entry.attempts += 1

    def _again(self, entry: _Entry, error: Exception, pause: float) -> None:
        now = time.monotonic()
        tried_for = now - entry.since
        if tried_for > self._timeout and not entry.job.lasts(error, tried_for):
            level = logging.DEBUG if isinstance(error, RetryLater) else logging.ERROR
            logger.log(level, "%s: given up, %r", entry.job.name, error)
            entry.job.on_give_up()
            return
        entry.due = now + pause
        with self._changed:
            heappush(self._entries, entry)


def pause_after(attempts: int) -> float:
    """Return the seconds until the next attempt, when ``attempts`` had failed before the last one."""
    return min(FIRST_PAUSE_S * 2.0 ** min(attempts, 30), LONGEST_PAUSE_S)
