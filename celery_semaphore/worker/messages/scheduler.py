"""Scheduler: what a worker does with waiting messages, in a thread of its own, again until it is done."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2  # seconds until the second attempt; twice as long until each one after it
LONGEST_PAUSE_S = 5.0  # between two attempts


class RetryLater(Exception):
    """An errand was not even tried, and need not be for so many seconds."""

    def __init__(self, why: str, left: float) -> None:
        super().__init__(why)
        self.left = left


class Job(Protocol):
    """Something to do that may fail for a while."""

    urgent: bool  # goes before those that are not
    name: str  # for the log

    def run(self) -> None:
        """Do it; called again after an exception, which may be ``RetryLater``."""

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """Say whether to go on after this error, so many seconds after the first attempt."""

    def on_give_up(self) -> None:
        """It failed for too long."""


@dataclass(slots=True, order=True)
class _Entry:
    due: float  # when to try
    job: Job = field(compare=False)
    since: float = field(compare=False)
    attempts: int = field(default=0, compare=False)


class Scheduler:
    """One thread; an errand that fails is tried again ever later, and holds up no other."""

    def __init__(
        self, timeout: float, done: Callable[[], None], at_end: Callable[[], None]
    ) -> None:
        self._timeout = timeout
        self._done = done  # called after each
        self._at_end = at_end
        self._entries: list[_Entry] = []  # a heap
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, job: Job) -> None:
        """Do this soon."""
        now = time.monotonic()
        with self._changed:
            heappush(self._entries, _Entry(0.0 if job.urgent else now, job, now))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="celery-semaphore-messages", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def flush(self, timeout: float) -> None:
        """Try each at once, and wait until all is done, so many seconds at most."""
        now = time.monotonic()
        with self._changed:
            for entry in self._entries:
                entry.due = min(entry.due, now)  # a shutdown waits for no pause
            heapify(self._entries)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._entries and not self._busy, timeout)

    def close(self, timeout: float) -> None:
        """End the thread, in so many seconds if what it does ends by then; what was not done is not lost, see each errand."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            try:
                self._try(entry)
            except Exception:
                # A thread that dies here would leave every waiting message where it is.
                logger.exception("%s: failed, and could not be given up", entry.job.name)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
                self._done()
        self._at_end()

    def _next(self) -> _Entry | None:
        """The errand that is due first, once it is; None when this is closed."""
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
        except RetryLater as error:
            logger.debug("%s: not now, %s", entry.job.name, error)
            self._again(entry, error, error.left)
        except Exception as error:  # noqa: BLE001 - whatever it is, it may pass
            # Said once: it may go on failing for hours.
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
    """Return the seconds until the next attempt, after so many that failed before the last one."""
    return min(FIRST_PAUSE_S * 2.0 ** min(attempts, 30), LONGEST_PAUSE_S)
