"""Acquisition: decide what one acquire does next; a driver makes its steps, in a thread or in an event loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from ..errors import SemaphoreTimeout, StoreUnavailable
from .asker import Notice, WaitingCall, asker_of
from .claim import Claim
from .lease import BEATS
from .names import new_name
from .outage import TRYING_AGAIN, outage_of
from .permit import Permit, Renewal
from .refusal import Answer, Reason, Refusal
from .renewal import renewed
from .session import HeldWait
from .signal_safe_event import SignalSafeEvent
from .store import Acquire, Store
from .ticket import DEFAULT_PRIORITY, Ticket
from .wait import Kind, Wait
from .wait_policy import too_heavy, usage

RETRY_DELAY_S = 1.0  # between two attempts while the store fails
ASKS = 3  # acquires per lease, also of a call that no grant notifies

OnAnswer = Callable[[Refusal | StoreUnavailable], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Make this call, which may ask the store, and wait for the resources of ``claims``."""

    call: Callable[[], object]
    claims: Sequence[Claim] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for ``seconds`` at most, or until ``notified`` is set; then clear it, before the next acquire."""

    seconds: float
    notified: Notice | None


Step = Acquire | Run | Pause
# The driver sends what a step returned, and throws the StoreUnavailable that it raised.
Steps = Generator[Step, Any, tuple[Permit, float]]


class Acquisition:
    """One acquire, for ``timeout`` seconds; with 0 it asks once, and is never in line.

    It asks as the same holder each time, so that it can ask again after a lost answer. A caller that gives the name of
    the ``holder`` releases it. What ``on_answer`` raises for an answer ends the wait.
    """

    def __init__(
        self,
        store: Store,
        claims: Sequence[Claim],
        timeout: float,
        *,
        ready: Callable[[], None] | None = None,
        on_answer: OnAnswer | None = None,
        holder: str | None = None,
        longest_pause: float = inf,
        notice: Callable[[], Notice] = SignalSafeEvent,
    ) -> None:
        self.store = store
        self.claims = claims
        self.error: StoreUnavailable | None = None  # of the last acquire
        self._timeout = timeout
        self._ready = ready
        self._on_answer = on_answer
        self._releases = holder is None
        self._process = os.getpid()
        self._longest_pause = longest_pause
        self._notice = notice
        self._deadline = time.monotonic() + timeout
        self._holder = holder or new_name()
        self._ticket: Ticket | None = None
        self._asker = asker_of(store)
        self._session = self._asker.session  # named in the last acquire
        self._outage = outage_of(store)
        self._waiting: WaitingCall | None = None
        self._asked: float | None = None  # before the first acquire that may have been admitted
        self._unanswered = False  # an acquire had no answer
        self._why = ""

    @property
    def holder(self) -> str:
        """The name by which it asks, and which its permit has."""
        return self._holder

    def steps(self) -> Steps:
        """Yield what to do next; return the permit and the monotonic time before it was acquired or renewed.

        Raise ``SemaphoreTimeout``. After any error the driver must ``end`` it, and release its ``names``.
        """
        while True:
            self.error = None
            try:
                asked, answer = yield from self._ask()
                if isinstance(answer, Permit):
                    if (since := (yield from self._confirmed(answer, asked))) is not None:
                        return answer, since
                    pause = self._lost()
                else:
                    yield from self._told(answer)
                    pause = self._refused(answer)
            except StoreUnavailable as unavailable:
                yield from self._told(unavailable)
                pause, self.error = self._failed(unavailable), unavailable
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise self._timed_out() from self.error
            if (pause := min(pause, left)) > 0:
                yield Pause(pause, self._waiting.notified if self._waiting else None)

    def end(self) -> None:
        """Ask no more, nor for its grant."""
        if self._waiting is not None:
            self._asker.discard(self._waiting.wait.ticket)
        # A signal handler may have interrupted it before it knew that it waits.
        if self._ticket is not None:
            self._asker.discard(self._ticket)

    def not_asked(self) -> None:
        """Take note that the acquire that was yielded last is not made: there is nothing of it to release."""
        self._asked = None

    def names(self) -> list[str | Ticket]:
        """Return what to release if the acquire is given up: what it may hold, then its place in line.

        The holder is the first, as an acquire that is still on its way then finds it released (R4, A7), and cannot
        stand in line again by the ticket. A forked child, where the collector closes what its parent waits with,
        releases nothing.
        """
        names: list[str | Ticket] = []
        if not self._releases or self._process != os.getpid():
            return names
        if self._unanswered or self._asked is not None:
            names.append(self._holder)
        if self._ticket is not None:
            names.append(self._ticket)
        return names

    def _ask(self) -> Generator[Step, Any, tuple[float, Answer]]:
        if self._ready is not None:
            yield Run(self._ready)
        asked = self._asked = self._asked or time.monotonic()
        try:
            answer: Answer = yield Acquire(self.claims, self._holder, self._how())
        except StoreUnavailable:
            self._unanswered = True
            raise
        self._outage.answered()
        if isinstance(answer, Refusal):
            self._ticket = answer.ticket or self._ticket
            # Not before the ticket is known: a call that gives up needs one of the two.
            self._asked = None
        return asked, answer

    def _how(self) -> Wait | None:
        if self._timeout <= 0:
            return None
        timeout = None if self._timeout == inf else self._timeout
        again = min(self._longest_pause, self.store.lease / ASKS)
        self._session = self._asker.session
        return Wait(
            Kind.BLOCK,
            self._ticket,
            DEFAULT_PRIORITY,
            shortest=again,
            longest=again,
            timeout=timeout,
            session=self._session,
        )

    def _confirmed(self, permit: Permit, since: float) -> Generator[Step, Any, float | None]:
        """Return since when the permit is surely held, None if it is lost.

        Nothing renewed it until its answer was read. If that took long, as its event loop was blocked or the process
        was paused, it is renewed first. Where each renewal takes as long, it is given up at the deadline.
        """
        is_renewed = False
        while time.monotonic() - since > self.store.lease / BEATS:
            if is_renewed and time.monotonic() >= self._deadline:
                self._why = "each answer was read too late to be sure of the permit"
                raise self._timed_out()
            is_renewed = True
            since = time.monotonic()
            renewal = yield Run(partial(renewed, self.store, permit), self.claims)
            if renewal is Renewal.LOST:
                return None
        return since

    def _timed_out(self) -> SemaphoreTimeout:
        name = self.claims[0].semaphore
        return SemaphoreTimeout(
            f"semaphore {name!r}: no permit in {self._timeout:g} s: {self._why}"
        )

    def _lost(self) -> float:
        self._why = "its lease ended before the answer of the acquire was read"
        self._asked = None
        self._begin_as_another()
        return 0.0

    def _begin_as_another(self) -> None:
        self._releases = True  # no caller knows the new name yet
        self._holder = new_name()

    def _told(self, answer: Refusal | StoreUnavailable) -> Generator[Step, Any, None]:
        if self._on_answer is None:
            return
        if isinstance(answer, StoreUnavailable):
            self._on_answer(answer)  # here: while the store is away, no call of a loop is made
        else:
            yield Run(partial(self._on_answer, answer))

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
            self._begin_as_another()
            return 0.0
        if self._waiting is None and self._ticket is not None:
            wait = HeldWait(self._ticket, tuple(self.claims), Kind.BLOCK)
            self._waiting = self._asker.add(wait, self._notice())
        # Compared after the asker knows the wait: either it is notified of a new session, or this sees it.
        return refusal.retry_after if self._session == self._asker.session else 0.0

    def _failed(self, error: StoreUnavailable) -> float:
        if self._timeout > 0:
            self._outage.failed(TRYING_AGAIN, self.claims[0].semaphore, error)
        self._why = str(error)
        return RETRY_DELAY_S
