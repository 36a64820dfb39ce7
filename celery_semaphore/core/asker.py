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
from .names import new_name
from .session import HeldWait, SessionReply
from .signal_safe_event import SignalSafeEvent
from .store import Store

logger = logging.getLogger(__name__)

NOTICED_S = 0.02  # until a new waiting call is noticed
IDLE_S = 10.0  # without a waiting call, after which the thread ends


class Notice(Protocol):
    """Wakes a call that waits. Any thread may set it, also a signal handler that interrupted the call itself."""

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

    def add(self, wait: HeldWait, notified: Notice | None = None) -> WaitingCall:
        """Ask for the grant of this wait from now on."""
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

    def discard(self, wait: HeldWait) -> None:
        self._waiting.pop(wait.ticket.nonce, None)

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
        pause, least = self._question()
        time.sleep(least)  # many new calls at once must not cause a question each
        self._pause(pause - least)

    def _pause(self, seconds: float) -> None:
        """Sleep for these seconds, or until another call waits, or the thread must end."""
        end = time.monotonic() + seconds
        while not self._new and (left := end - time.monotonic()) > 0:
            if not (self._waiting or self._lingers):
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
        self._missed, self._epoch = False, reply.epoch
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
