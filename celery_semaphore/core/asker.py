"""Asker: ask for the grants of all waiting calls of this process, in one thread (docs/maintain/architecture.md, 8)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..errors import SemaphoreError
from .background_thread import BackgroundThread
from .forecast import SLOWEST_S, Forecast
from .lease import BEATS
from .names import new_name
from .session import HeldWait, SessionReply
from .signal_safe_event import SignalSafeEvent
from .store import Store
from .sweep import sweep_pause
from .ticket import Ticket

logger = logging.getLogger(__name__)

NOTICED_S = 0.02  # until a new waiting call is noticed
IDLE_S = 10.0  # without a waiting call, after which the thread ends
UNHEARD_S = 0.75  # after which a granted call that did not hear of it does not run


class Notice(Protocol):
    """Wakes a call that waits. Any thread may set it, also a signal handler that interrupted the call itself."""

    @property
    def unheard_since(self) -> float | None:
        """The monotonic time when it was set, while the event loop of its call has not run since."""

    def set(self) -> None: ...


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A waiting call. ``notified`` is set when it should try to acquire its permit."""

    wait: HeldWait
    notified: Notice


class Asker:
    """Asks by one session, which lives while a call waits.

    After a question without an answer, in a new epoch, or if the store had forgotten the session or let it sleep, the
    next answer notifies all waiting calls: a grant may have ended meanwhile, and their next refusals put them in line
    again.

    A call that does not run, as its event loop is blocked or stopped, takes no grant up. If one has not heard of its
    grant for long, the next question is that of a new session: the calls that run move to it, as they ask again, and
    the old one sleeps, so that all that do not run are passed over together.

    It also sweeps, for no worker may do so: what a dead process leaves ends by time, and the waiting calls themselves
    look at their resources only three times in a lease.
    """

    def __init__(self, store: Store) -> None:
        self.session = new_name()
        self._store = store
        # Changed by atomic operations, without a lock, because a signal handler may acquire.
        self._waiting: dict[str, WaitingCall] = {}
        self._new = deque[HeldWait]()  # calls that wait since the last question
        self._forecast = Forecast(self._waits)
        self._starting = threading.RLock()
        self._thread: BackgroundThread | None = None  # only while calls wait
        self._lingers = True  # whether the thread stays for IDLE_S after the last call
        self._missed = False  # a question had no answer, and a grant may have ended meanwhile
        self._epoch: int | None = None  # of the last answer
        self._granted: frozenset[str] = frozenset()  # in the last answer
        self._moves_at = 0.0  # not before: all calls that run ask again then
        self._sessions = 0  # the number of awake ones in the last answer
        self._sweeps_at = 0.0  # set when the first call begins to wait

    def add(self, wait: HeldWait, notified: Notice | None = None) -> WaitingCall:
        """Ask for the grant of this wait from now on."""
        if not self._waiting:  # a short wait costs no sweep
            self._sweeps_at = time.monotonic() + sweep_pause(self._sessions)
        waiting = WaitingCall(wait, notified or SignalSafeEvent())
        self._waiting[wait.ticket.nonce] = waiting
        self._new.append(wait)
        self._lingers = True
        with self._starting:
            if self._thread is None:
                self._epoch = self._store.epoch
                self._thread = BackgroundThread(
                    "celery-semaphore-grants", self._ask_then_pause, self._is_idle
                )
            self._thread.start()
        return waiting

    def discard(self, ticket: Ticket) -> None:
        self._waiting.pop(ticket.nonce, None)

    def tell(self, granted: Iterable[str]) -> None:
        """Notify the calls of this process that a release has granted permits: they need not be asked for."""
        for nonce in granted:
            if waiting := self._waiting.get(nonce):
                waiting.notified.set()

    def end_if_idle(self) -> None:
        """End the thread now, and wait for its end, unless another call waits or begins to."""
        thread, self._lingers = self._thread, False
        while thread is not None and not self._waiting and not thread.join(NOTICED_S):
            pass

    def _waits(self, wait: HeldWait) -> bool:
        waiting = self._waiting.get(wait.ticket.nonce)
        return waiting is not None and waiting.wait is wait

    def _ask_then_pause(self) -> None:
        while self._new:
            self._forecast.add(self._new.popleft(), 0.0)  # ask first: its turn is unknown
        if self._is_unheard():
            self._move()
        self._sweep()
        pause, least = self._question()
        time.sleep(least)  # many new calls at once must not cause a question each
        self._pause(pause - least)

    def _pause(self, seconds: float) -> None:
        """Sleep for these seconds, or until another call waits, or the thread must end."""
        end = time.monotonic() + seconds
        while not self._new and (left := end - time.monotonic()) > 0:
            if not (self._waiting or self._lingers) or self._is_unheard():
                break
            time.sleep(min(left, NOTICED_S))

    def _is_idle(self) -> bool:
        """Sleep until a call waits; return whether none came for long, so that this thread ends."""
        if not self._waiting:
            self._pause(IDLE_S)
        with self._starting:
            if not self._waiting:  # else a call was added since, and this thread goes on
                self._thread = None
            return self._thread is None

    def _sweep(self) -> None:
        """Reap if it is time, before the question: its answer then tells what that granted.

        While the store is away the questions alone find out when it is back.
        """
        if self._missed or time.monotonic() < self._sweeps_at:
            return
        self._sweeps_at = time.monotonic() + sweep_pause(self._sessions)
        try:
            self._store.reap()
        except SemaphoreError as error:
            logger.debug("the store could not be swept: %s", error)
        except Exception:
            logger.exception("the store could not be swept")

    def _is_unheard(self) -> bool:
        """Return whether a call has not heard of its grant for long."""
        now = time.monotonic()
        if now < self._moves_at:
            return False
        granted = (self._waiting.get(nonce) for nonce in self._granted)
        since = (each.notified.unheard_since for each in granted if each)
        return any(now - each > UNHEARD_S for each in since if each is not None)

    def _move(self) -> None:
        """Take a new session, and let the old one sleep, with the waits of all calls that do not run.

        If the store does not answer, the old one sleeps when the grant ends (E7). The new one comes first, lest a call
        that asks meanwhile wakes the old one.
        """
        logger.warning("an event loop does not run, and so no call of it takes up its permit")
        old, self.session = self.session, new_name()
        self._moves_at = time.monotonic() + self._store.lease / BEATS  # calls ask so often anyway
        self._missed, self._granted = True, frozenset()  # the next answer notifies all
        try:
            self._store.sleep(old)
        except SemaphoreError as error:
            logger.debug("the session of calls that do not run sleeps later: %s", error)

    def _question(self) -> tuple[float, float]:
        """Ask once; return the seconds until the next question, and the fewest of them if a new call arrives."""
        waiting, first, reply = self._waiting.copy(), self._forecast.first(), None
        try:
            reply = self._store.ask(self.session, to_forecast=first)
        except SemaphoreError as error:
            if not self._missed:
                logger.warning("cannot ask for grants, retrying: %s", error)
        except Exception:
            logger.exception("could not ask for grants, retrying")
        now = time.monotonic()
        self._forecast.learn(first, reply.expected if reply else {}, now)
        if reply is None:
            self._missed = True
            return SLOWEST_S, SLOWEST_S
        lost = reply.slept or self._missed or reply.epoch != self._epoch
        self._notify(waiting, reply, all_of_them=lost)
        self._missed, self._epoch, self._sessions = False, reply.epoch, reply.sessions
        self._granted = reply.granted
        self._forecast.tidy(len(waiting))
        return self._forecast.pause(reply.sessions, now)

    def _notify(
        self, waiting: dict[str, WaitingCall], reply: SessionReply, *, all_of_them: bool
    ) -> None:
        for nonce, each in waiting.items():
            if all_of_them or nonce in reply.granted:
                each.notified.set()


_by_store: dict[Store, Asker] = {}
# A forked child has neither its parent's thread nor its session.
os.register_at_fork(after_in_child=_by_store.clear)


def asker_of(store: Store) -> Asker:
    """Return the asker of this process for a store, made when it is first needed."""
    return _by_store.get(store) or _by_store.setdefault(store, Asker(store))
