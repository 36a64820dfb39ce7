"""Sweeper: find parked messages that must be sent although no release reports them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from celery.worker import state

from ...core.background_thread import BackgroundThread
from ...core.signal_safe_event import SignalSafeEvent
from ...core.store import Outgoing, Store
from ...core.sweep import sweep_pause
from ...errors import StoreUnavailable

logger = logging.getLogger(__name__)


class Sweeper:
    """Sweeps the store by one thread in a worker's main process.

    It finds grants that no worker took up, waits that are over, and tasks that were revoked. It also finds parked tasks
    that were granted by a client without a broker, or by a worker that died. Each is offered to one worker only.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        found: Callable[[Outgoing], None],
        *,
        sessions: Callable[[], int],
        also: Callable[[], object],
        say: Callable[[], object],
    ) -> None:
        self._store = store
        self._found = found
        self._sessions = sessions  # returns the known number of sessions of all workers
        self._also = also  # runs after each sweep that the store answered
        self._say = say  # tells the store which queues the worker consumes
        self._known: set[str] = set()  # ids of revoked tasks that were ended in the store
        self._event = SignalSafeEvent()
        self._stopped = False
        self._thread = BackgroundThread(
            "celery-semaphore-sweeps", self._wait_then_sweep, lambda: self._stopped
        )

    def start(self) -> None:
        """Start the thread; once is enough."""
        self._thread.start()

    def soon(self) -> None:
        """Sweep now: the worker consumes other queues than before."""
        self._event.set()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._event.set()

    def sweep(self) -> None:
        """Sweep once."""
        self._say()
        store, revoked = self._store(), set(state.revoked)
        outgoing = store.reap()
        if new := revoked - self._known:
            outgoing |= store.end(sorted(new))
        self._known = revoked
        self._found(outgoing)
        self._also()

    def _wait_then_sweep(self) -> None:
        self._event.wait(sweep_pause(self._sessions()))
        if self._stopped:
            return
        try:
            self.sweep()
        except StoreUnavailable as error:
            logger.debug("the store could not be swept: %s", error)
