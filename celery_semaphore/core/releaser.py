"""Releaser: release permits in a thread of its own, so that no event loop waits for the store."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile

from ..errors import ResourceBusy, SemaphoreError, StoreUnavailable
from .background_thread import BackgroundThread
from .claim import Claim
from .message_id import MessageId
from .outage import GIVEN_UP, outage_of
from .signal_safe_event import SignalSafeEvent
from .store import CALLED, HandedOn, Release, Store
from .ticket import Ticket

logger = logging.getLogger(__name__)

PROCESS_CHECK_S = 0.05  # between two checks of a dying process
IDLE_CHECK_S = 0.5  # between two reads of the notes, which do not set the event
RETRY_PAUSE_S = 0.5  # between two attempts while the store fails


@dataclass(slots=True, eq=False)
class _Release:
    holder: str | Ticket
    claims: Sequence[Claim]
    message_id: MessageId | None
    since: float = field(default_factory=time.monotonic)
    then: list[Callable[[], None]] = field(default_factory=list)  # what waits for its end

    def is_overdue(self, begun: float) -> bool:
        """Return whether the lease has ended if it was renewed at this monotonic time at the latest.

        The place of a wait has no lease of its own while this process asks for its other waits: if its release were
        given up, each such wait would keep a free permit for two seconds.
        """
        return self.since < begun and not isinstance(self.holder, Ticket)


@dataclass(slots=True)
class _Dying:
    gone: Callable[[], bool]
    then: Callable[[], None]


class Releaser:
    """Releases in one thread, many together; a release without an answer is repeated.

    After one lease the release of a holder is given up, but for the ``keeps`` oldest ones: the store lets permits last
    after a silence, and a server that hangs may make an acquire without an answer when it goes on. The place of a wait
    lasts as long as this process asks for any of its waits, so its release is repeated until the store answers.

    Other threads only queue jobs, without a lock. So a signal handler may do it, whatever it interrupted.
    """

    def __init__(
        self,
        store: Store,
        before: Callable[[], None] = lambda: None,
        handed_on: Callable[[HandedOn], None] = lambda _: None,
        *,
        keeps: int = 0,
    ) -> None:
        self._store = store
        self._keeps = keeps
        self._outage = outage_of(store)
        self._handed_on = handed_on
        self._before = before  # reads the notes of the pool's processes
        self._jobs: deque[Callable[[], None]] = deque()
        self._event = SignalSafeEvent()
        self._releases: deque[_Release] = deque()  # only the thread uses this and the next two
        self._busy: list[Sequence[Claim]] = []
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
        self.soon(partial(self._add, _Release(holder, claims, message_id)))

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
            self._release(self._next())

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

    def _next(self) -> list[_Release]:
        """Take the next release, or several that the store can make in one round trip: many calls may be cancelled.

        Those of a resource that was busy come after all others, which would wait as long as it.
        """
        if self._busy:
            self._releases = deque(
                sorted(self._releases, key=lambda each: each.claims in self._busy)
            )
        if self._store.calls_at_once > 1 or self._releases[0].message_id is not None:
            return [self._releases.popleft()]
        some = takewhile(lambda each: each.message_id is None, self._releases)
        found = list(islice(some, CALLED))
        for _ in found:
            self._releases.popleft()
        return found

    def _release(self, some: list[_Release]) -> None:
        over = some  # also after an error that is not repeated
        try:
            answers = self._answers(some)
            both = [*zip(some, answers, strict=True)]
            self._releases.extend(each for each, said in both if isinstance(said, StoreUnavailable))
            self._note_busy(both)
            over = [each for each, said in both if not isinstance(said, StoreUnavailable)]
            over += self._noted(answers)
            for said in answers:
                if isinstance(said, HandedOn):
                    self._handed_on(said)
            for said in answers:
                if isinstance(said, SemaphoreError) and not isinstance(said, StoreUnavailable):
                    raise said
        finally:
            for each in over:
                for then in each.then:
                    self.after(each.holder, then)

    def _note_busy(self, both: Sequence[tuple[_Release, object]]) -> None:
        for each, said in both:
            if each.claims in self._busy:
                self._busy.remove(each.claims)
            if isinstance(said, ResourceBusy):
                self._busy.append(each.claims)

    def _answers(self, some: list[_Release]) -> Sequence[object]:
        try:
            if len(some) == 1:
                return [self._store.release(some[0].holder, some[0].claims, some[0].message_id)]
            return self._store.call_all([Release(each.holder, each.claims) for each in some])
        except StoreUnavailable as error:
            return [error] * len(some)
        except SemaphoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the permits are to be released
            if len(some) > 1:  # the others are to succeed
                return [said for each in some for said in self._answers([each])]
            # Not the store's, and perhaps for ever. What is dropped is a permit until its lease ends.
            logger.warning("the release of %s failed: %r", some[0].holder, error)
            is_old = time.monotonic() - some[0].since > self._store.lease
            return [SemaphoreError(repr(error)) if is_old else StoreUnavailable(repr(error))]

    def _noted(self, answers: Sequence[object]) -> list[_Release]:
        """Note whether the store answers; return what is given up."""
        failed = [said for said in answers if isinstance(said, StoreUnavailable)]
        if not failed:
            self._outage.answered()
            return []
        self._outage.note()
        if not all(isinstance(said, ResourceBusy) for said in failed):
            self._retry_at = time.monotonic() + RETRY_PAUSE_S
        return self._give_up_overdue(failed[-1])

    def _add(self, release: _Release) -> None:
        # Not as a bound `append`: the queue may be another one by the time when the job runs.
        self._releases.append(release)

    def _call_after(self, holder: str | Ticket, then: Callable[[], None]) -> None:
        for release in self._releases:
            if release.holder == holder:
                release.then.append(then)
                return
        then()

    def _give_up_overdue(self, error: StoreUnavailable) -> list[_Release]:
        """Drop and return those of holders that are older than a lease: they would queue up while the store hangs."""
        begun = time.monotonic() - self._store.lease
        overdue = [each for each in self._releases if each.is_overdue(begun)]
        over = dict.fromkeys(sorted(overdue, key=lambda each: each.since)[self._keeps :])
        if over:
            self._outage.failed(GIVEN_UP, len(over), error)
            self._releases = deque(each for each in self._releases if each not in over)
        return list(over)
