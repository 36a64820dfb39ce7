"""Releaser: release permits in a thread of its own, so that no event loop waits for the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..errors import StoreUnavailable
from .background_thread import BackgroundThread
from .outage import GIVEN_UP, outage_of
from .permit import Claim, MessageId
from .signal_safe_event import SignalSafeEvent
from .store import HandedOn, Store
from .ticket import Ticket

PROCESS_CHECK_S = 0.05  # between two checks of a dying process
IDLE_CHECK_S = 0.5  # between two reads of the notes, which do not set the event
RETRY_PAUSE_S = 0.5  # between two attempts while the store fails


@dataclass(slots=True)
class _Release:
    holder: str | Ticket
    claims: Sequence[Claim]
    message_id: MessageId | None
    since: float = field(default_factory=time.monotonic)
    then: list[Callable[[], None]] = field(default_factory=list)  # what waits for its end


@dataclass(slots=True)
class _Dying:
    gone: Callable[[], bool]
    then: Callable[[], None]


class Releaser:
    """Releases in one thread; a release without an answer is repeated for one lease, as the lease has ended then.

    Other threads only queue jobs, without a lock. So a signal handler may do it, whatever it interrupted.
    """

    def __init__(
        self,
        store: Store,
        before: Callable[[], None] = lambda: None,
        handed_on: Callable[[HandedOn], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._outage = outage_of(store)
        self._handed_on = handed_on
        self._before = before  # reads the notes of the pool's processes
        self._jobs: deque[Callable[[], None]] = deque()
        self._event = SignalSafeEvent()
        self._releases: deque[_Release] = deque()  # only the thread uses this and the next one
        self._dying: list[_Dying] = []
        self._retry_at = 0.0  # monotonic time of the next attempt after the store failed
        self._closing = False
        self._closed = False
        self._thread = BackgroundThread("celery-semaphore-releases", self._step, self._is_over)

    def start(self) -> None:
        """Start the thread; once is enough."""
        self._thread.start()

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> None:
        """Release as soon as possible."""
        self.soon(partial(self._releases.append, _Release(holder, claims, message_id)))

    def after(self, holder: str | Ticket, then: Callable[[], None]) -> None:
        """Call ``then`` once each release of this holder that was queued before has succeeded, or is given up."""
        self.soon(partial(self._call_after, holder, then))

    def when(self, gone: Callable[[], bool], then: Callable[[], None]) -> None:
        """Call ``then`` once the process is ``gone``."""
        self.soon(partial(self._dying.append, _Dying(gone, then)))

    def soon(self, job: Callable[[], None]) -> None:
        """Queue a job for the releaser's thread, which enters the notes written so far first."""
        self._jobs.append(job)
        self._event.set()

    def flush(self, timeout: float) -> None:
        """Wait until all is released, for ``timeout`` seconds at most; the thread ends then."""
        self._closing = True
        self._event.set()
        self._thread.join(timeout)

    def close(self, timeout: float) -> None:
        """Wait until all is released, for ``timeout`` seconds at most, then end the thread."""
        self.flush(timeout)
        self._closed = True
        self._event.set()
        self._thread.join(timeout)

    def _is_over(self) -> bool:
        idle = not self._jobs and not self._releases and not self._dying
        return self._closed or (self._closing and idle)

    def _step(self) -> None:
        self._event.wait(self._pause())
        # Count before reading the notes: a job runs after the notes that were written before it.
        left = len(self._jobs)
        self._before()
        for _ in range(left):
            self._jobs.popleft()()
        self._check_dying()
        if self._releases and time.monotonic() >= self._retry_at:
            self._release(self._releases.popleft())

    def _pause(self) -> float:
        pause = PROCESS_CHECK_S if self._dying else IDLE_CHECK_S
        if self._releases:
            pause = min(pause, max(0.0, self._retry_at - time.monotonic()))
        return pause

    def _check_dying(self) -> None:
        for each in list(self._dying):
            if each.gone():
                self._dying.remove(each)
                self._before()  # read its last notes
                each.then()

    def _release(self, release: _Release) -> None:
        over = [release]  # also after an error that is not repeated
        try:
            handed = self._store.release(release.holder, release.claims, release.message_id)
            self._outage.answered()
            self._handed_on(handed)
        except StoreUnavailable as error:
            self._outage.note()
            self._releases.append(release)
            over = self._give_up_overdue(error)
            self._retry_at = time.monotonic() + RETRY_PAUSE_S
        finally:
            for each in over:
                for then in each.then:
                    self.after(each.holder, then)

    def _call_after(self, holder: str | Ticket, then: Callable[[], None]) -> None:
        for release in self._releases:
            if release.holder == holder:
                release.then.append(then)
                return
        then()

    def _give_up_overdue(self, error: StoreUnavailable) -> list[_Release]:
        """Drop and return all that are older than a lease, or they would queue up while the store hangs."""
        begun = time.monotonic() - self._store.lease
        overdue = [release for release in self._releases if release.since < begun]
        if overdue:
            self._outage.failed(GIVEN_UP, len(overdue), error)
            self._releases = deque(each for each in self._releases if each.since >= begun)
        return overdue
