"""BackgroundThread: run one step again and again in a daemon thread that survives every error."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

ERROR_PAUSE_S = 0.05  # so that a step that fails before it waits does not keep a processor busy


class BackgroundThread:
    """Calls ``step`` until ``is_over``, then ``at_end`` once. The step itself waits until there is work.

    What wakes the step and what ends the loop belong to the owner, since some owners must take no lock for it. A forked
    child has no such thread, and needs an owner of its own.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        is_over: Callable[[], bool],
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._name = name
        self._step = step
        self._is_over = is_over
        self._at_end = at_end
        self._thread: threading.Thread | None = None
        self._begun: threading.Thread | None = None  # the one that came to its first step
        self._starting = threading.RLock()  # reentrant: a signal handler may start it, too

    def start(self) -> None:
        """Start the thread; once is enough. Raise ``RuntimeError`` where none can be started, as the process ends.

        If a signal handler interrupts it by an error, the next call makes up for it. The thread may then have died
        before its first step, as ``Thread.start`` forgets it, or may begin late, and end in favour of another one.
        """
        # Not waiting: its starter waits for the new thread, in which the collector may close what starts it again.
        if not self._starting.acquire(blocking=False):  # another thread starts it
            return
        try:
            before = self._thread
            if before is None or not (before is self._begun or before.is_alive()):
                self._start()
        finally:
            self._starting.release()

    def _start(self) -> None:
        if sys.is_finalizing():  # no thread begins then, and its starter would wait for ever
            msg = "this process ends"
            raise RuntimeError(msg)
        thread = self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        thread.start()  # a signal handler that came in between has started another one

    def join(self, timeout: float) -> bool:
        """Wait for the end, for ``timeout`` seconds at most, and return whether the thread does not run.

        The thread itself does not wait.
        """
        thread = self._thread
        if thread is None or thread.ident is None:  # not started
            return True
        if thread is threading.current_thread():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        over = False
        # Another thread has this one's place if its start was interrupted, but it had begun.
        while not over and (this := threading.current_thread()) is self._thread:
            self._begun = this
            try:
                over = self._is_over()
                if not over:
                    self._step()
            except (Exception, SystemExit):
                # If this thread died, its work would stop without a log line: leases would expire, permits would leak.
                logger.exception("%s: a step failed; the thread continues", self._name)
                time.sleep(ERROR_PAUSE_S)
        if over:
            self._at_end()
