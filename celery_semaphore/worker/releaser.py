"""Releaser: gives permits back, in a thread of its own, so that no event loop waits for the store."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..core.permit import Claim, Publication
from ..core.store import Outgoing, Store
from ..errors import StoreUnavailable

logger = logging.getLogger(__name__)

LOOK = 0.05  # seconds between looks at a dying process
REST = 0.5  # seconds between looks at notes and errands that nobody announces
AGAIN = 0.5  # seconds between attempts while the store fails


@dataclass(slots=True)
class _Release:
    holder: str
    claims: Sequence[Claim]
    publication: Publication | None
    since: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class _Dying:
    gone: Callable[[], bool]
    then: Callable[[], None]
    over: Callable[[], bool]


class Releaser:
    """One thread that releases; unanswered releases are repeated for one lease, then it has ended."""

    def __init__(
        self,
        store: Store,
        before: Callable[[], None] = lambda: None,
        handed_on: Callable[[Outgoing], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._handed_on = handed_on
        self._before = before  # reads what the pool's processes noted
        self._releases: deque[_Release] = deque()
        self._dying: list[_Dying] = []
        # Of all queues the one that a signal handler may use while its own thread uses it.
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; once is enough."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="celery-semaphore-releases", daemon=True
            )
            self._thread.start()

    def release(
        self, holder: str, claims: Sequence[Claim], publication: Publication | None = None
    ) -> None:
        """Release as soon as possible."""
        with self._changed:
            self._releases.append(_Release(holder, claims, publication))
            self._changed.notify()

    def when(
        self, gone: Callable[[], bool], then: Callable[[], None], over: Callable[[], bool]
    ) -> None:
        """Call ``then`` once the process is ``gone``, unless it is ``over`` before."""
        with self._changed:
            self._dying.append(_Dying(gone, then, over))
            self._changed.notify()

    def soon(self, errand: Callable[[], None]) -> None:
        """Do this in the releaser's thread; takes no lock, so a signal handler may call it."""
        self._errands.put(errand)

    def release_now(self, holder: str, claims: Sequence[Claim]) -> None:
        """Release in the calling thread, and go on trying in the other if the store fails."""
        try:
            self._handed_on(self._store.release(holder, claims))
        except StoreUnavailable:
            self.release(holder, claims)

    def close(self, timeout: float) -> None:
        """Wait until all is released, so many seconds at most, then end the thread."""
        with self._changed:
            self._changed.wait_for(self._is_idle, timeout)
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def _is_idle(self) -> bool:
        idle = not self._releases and not self._dying and not self._busy
        return idle and self._errands.empty()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._step()
            except Exception:
                # A thread that dies here leaks every later permit for a lease.
                logger.exception("a release failed; the releaser goes on")

    def _step(self) -> None:
        with self._changed:
            if not self._releases:
                self._changed.wait(LOOK if self._dying else REST)
            if self._closed:
                return
            release = self._releases.popleft() if self._releases else None
            dying, self._dying = self._dying, []
            self._busy = True
        try:
            self._before()
            while not self._errands.empty():
                self._errands.get()()
            self._bury(dying)
            if release is not None:
                self._release(release)
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _bury(self, dying: list[_Dying]) -> None:
        for each in dying:
            if each.over():
                continue
            if each.gone():
                self._before()  # its last words
                each.then()
            else:
                with self._changed:
                    self._dying.append(each)

    def _release(self, release: _Release) -> None:
        try:
            outgoing = self._store.release(release.holder, release.claims, release.publication)
            self._handed_on(outgoing)
        except StoreUnavailable as error:
            if time.monotonic() - release.since > self._store.lease:
                logger.warning(
                    "%s was not released, its lease has ended: %s", release.holder, error
                )
                return
            with self._changed:
                self._releases.append(release)
                if not self._closed:
                    self._changed.wait(AGAIN)
