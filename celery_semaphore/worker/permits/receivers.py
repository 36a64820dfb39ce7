"""ReceiverThread: call the receivers of our signals, so that no other part of the worker waits for them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from ...core.background_thread import BackgroundThread
from ...core.signal_safe_event import SignalSafeEvent

logger = logging.getLogger(__name__)

MAX_QUEUED = 1000  # further calls are dropped; urgent ones only beyond twice as many
IDLE_WAIT_S = 60.0  # between two checks; each call sets the event

Call = Callable[[], object]


class ReceiverThread:
    """Runs receivers one after the other, in one thread of a worker's main process.

    How it fails: while a receiver is slow, calls are queued, then dropped, which is logged once until the queue is
    empty again. A receiver that hangs blocks all later ones, and nothing else. At shutdown the thread has a bounded
    time to finish. It is a daemon thread, so a receiver that hangs does not keep the process alive.
    """

    def __init__(self, log_soon: Callable[[Callable[[], None]], None]) -> None:
        self._log_soon = log_soon  # runs a function in a thread that may log
        self._calls: deque[Call] = deque()
        self._event = SignalSafeEvent()
        self._behind = False  # calls were dropped since the queue was empty
        self._closing = False
        self._thread = BackgroundThread("celery-semaphore-receivers", self._step, self._is_over)

    def start(self) -> None:
        """Start the thread; once is enough."""
        self._thread.start()

    def add(self, call: Call, *, urgent: bool = False) -> None:
        """Queue a call; an urgent call goes before all others.

        This takes no lock and does not log. A cold shutdown ends tasks in a signal handler, which may have interrupted
        any step of this, or the log handler of the same thread.
        """
        if len(self._calls) >= (2 * MAX_QUEUED if urgent else MAX_QUEUED):
            if not self._behind:
                self._behind = True
                self._log_soon(self._log_dropped)
            return
        if urgent:
            self._calls.appendleft(call)
        else:
            self._calls.append(call)
        self._event.set()

    def close(self, timeout: float) -> None:
        """Run the queued calls within ``timeout`` seconds, and drop the rest."""
        self._closing = True
        self._event.set()
        if not self._thread.join(timeout):
            left = len(self._calls)
            self._calls.clear()
            logger.warning(
                "a receiver of permit_lost, permit_released, task_saturated or task_revoked still runs after %g s: the worker ends,"
                " and %d signals are not sent",
                timeout,
                left,
            )

    def _is_over(self) -> bool:
        return self._closing and not self._calls

    def _step(self) -> None:
        self._event.wait(IDLE_WAIT_S)
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:  # close() dropped the rest
                break
            try:
                call()  # not above: an IndexError of its own must not end the round
            except (Exception, SystemExit):
                # The thread must survive: without it no signal is sent any more.
                logger.exception("a receiver failed")
        if self._behind:
            self._behind = False
            logger.warning("receivers of signals keep up again")

    def _log_dropped(self) -> None:
        logger.error(
            "receivers of permit_released, permit_lost, task_saturated or task_revoked are too slow: %d signals wait,"
            " the next ones are dropped; let receivers hand work to a thread or a queue",
            len(self._calls),
        )
