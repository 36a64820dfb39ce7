"""BlockingWaiter: block until a permit is acquired, in the same line as waiting tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import inf

from ..errors import SemaphoreError, SemaphoreTimeout, StoreUnavailable
from .asker import WaitingCall, asker_of
from .held_permits import held_permits_in
from .names import new_name
from .permit import Answer, Claim, Kind, Permit, Reason, Refusal, Wait
from .session import HeldWait
from .store import Store
from .ticket import DEFAULT_PRIORITY, Ticket
from .wait_policy import too_heavy, usage

logger = logging.getLogger(__name__)

RETRY_DELAY_S = 1.0  # between two attempts while the store fails
ASKS = 3  # acquires per lease: without a worker that sweeps, these end what is overdue


class BlockingWaiter:
    """One blocking acquire, for ``timeout`` seconds; with 0 it asks once, and is never in line.

    It asks as the same holder each time, so that it can ask again after a lost answer. After any error, also one that a
    signal handler raised when the permit had arrived, its caller must let it ``give_up``. A caller that gives the name
    of the ``holder`` releases it. What ``on_answer`` raises for an answer ends the wait.
    """

    def __init__(
        self,
        store: Store,
        claims: Sequence[Claim],
        timeout: float,
        *,
        ready: Callable[[], None] = lambda: None,
        on_answer: Callable[[Refusal | StoreUnavailable], None] = lambda _: None,
        holder: str | None = None,
        longest_pause: float = inf,
    ) -> None:
        self._store = store
        self._claims = claims
        self._timeout = timeout
        self._ready = ready
        self._on_answer = on_answer
        self._releases = holder is None
        self._longest_pause = longest_pause
        self._deadline = time.monotonic() + timeout
        self._holder = holder or new_name()
        self._ticket: Ticket | None = None
        self._asker = asker_of(store)
        self._waiting: WaitingCall | None = None
        self._asked: float | None = None  # before the first acquire that may have been admitted
        self._unanswered = False  # an acquire had no answer
        self._warned = False
        self._error: StoreUnavailable | None = None  # of the last acquire
        self._why = ""

    def acquire(self) -> tuple[Permit, float]:
        """Return the permit and the monotonic time before it was acquired; raise ``SemaphoreTimeout``."""
        try:
            return self._wait()
        finally:
            if self._waiting is not None:
                self._asker.discard(self._waiting.wait)

    @property
    def holder(self) -> str:
        """The name by which it asks, and which its permit has."""
        return self._holder

    def give_up(self) -> None:
        """Leave the line, and release the permit that was acquired, or may have been by a lost answer."""
        if not self._releases:
            return
        names: list[str | Ticket] = [self._ticket] if self._ticket else []
        if self._unanswered or self._asked is not None:
            names.append(self._holder)
        for name in names:
            self._release(name)

    def _wait(self) -> tuple[Permit, float]:
        while True:
            self._error = None
            try:
                asked, answer = self._ask()
                if isinstance(answer, Permit):
                    return answer, asked
                self._on_answer(answer)
                pause = self._refused(answer)
            except StoreUnavailable as unavailable:
                self._on_answer(unavailable)
                pause, self._error = self._failed(unavailable), unavailable
            left = self._deadline - time.monotonic()
            if left <= 0:
                msg = f"semaphore {self._claims[0].semaphore!r}: no permit in {self._timeout:g} s: {self._why}"
                raise SemaphoreTimeout(msg) from self._error
            self._pause(min(pause, left))

    def _ask(self) -> tuple[float, Answer]:
        self._ready()
        asked = self._asked = self._asked or time.monotonic()
        try:
            answer = self._store.acquire(self._claims, self._holder, self._how())
        except StoreUnavailable:
            self._unanswered = True
            raise
        if isinstance(answer, Refusal):
            self._ticket = answer.ticket or self._ticket
            # Not before the ticket is known: a call that gives up needs one of the two.
            self._asked = None
        return asked, answer

    def _how(self) -> Wait | None:
        if self._timeout <= 0:
            return None
        timeout = None if self._timeout == inf else self._timeout
        again = min(self._longest_pause, self._store.lease / ASKS)
        return Wait(
            Kind.BLOCK,
            self._ticket,
            DEFAULT_PRIORITY,
            shortest=again,
            longest=again,
            timeout=timeout,
            session=self._asker.session,
        )

    def _refused(self, refusal: Refusal) -> float:
        """Handle a refusal; return the seconds until the next attempt, unless the call is notified before."""
        why = f"{usage(refusal)}, {refusal.position} waiting before it"
        reason = Reason.PAUSED if refusal.limit == 0 else refusal.reason
        self._why = why if reason is Reason.TIMED_OUT else f"{reason}, {why}"
        if reason is Reason.UNSATISFIABLE:
            self._why = f"{reason}, {too_heavy(refusal)}"
        if refusal.reason is Reason.TIMED_OUT:
            self._deadline = 0.0
            return 0.0
        if refusal.reason is Reason.RELEASED:
            # An acquire was admitted, its answer was lost, and the lease expired before the next one.
            self._releases = True  # no caller knows the new name yet
            self._holder = new_name()
            return 0.0
        if self._waiting is None and self._ticket is not None:
            wait = HeldWait(self._ticket, tuple(self._claims), Kind.BLOCK)
            self._waiting = self._asker.add(wait)
        return refusal.retry_after

    def _failed(self, error: StoreUnavailable) -> float:
        if not self._warned and self._timeout > 0:
            logger.warning("semaphore %r: trying again: %s", self._claims[0].semaphore, error)
        self._warned = True
        self._why = str(error)
        return RETRY_DELAY_S

    def _pause(self, seconds: float) -> None:
        if seconds > 0 and self._waiting is not None:
            self._waiting.notified.wait(seconds)
            self._waiting.notified.clear()  # before the acquire, which finds any grant made until then
        elif seconds > 0:
            time.sleep(seconds)

    def _release(self, name: str | Ticket) -> None:
        """Release now; or later, if the store did not answer: the caller has waited long enough."""
        try:
            if self._error is None:
                self._store.release(name, self._claims)
                return
        except StoreUnavailable as error:
            self._error = error
        except SemaphoreError as error:
            logger.warning("%s was not released, its lease ends: %s", name, error)
            return
        logger.info("%s may have a permit, it is released in the background: %s", name, self._error)
        held_permits_in(self._store).release_later(name, self._claims)
