"""Asker: one thread that asks for the grants of all calls of this process that wait (docs/architecture.md, 8)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from ..errors import SemaphoreError
from .forecast import SLOWEST_S, Forecast
from .names import new_name
from .session import HeldWait, Turns
from .store import Store
from .ticket import nonce_of

logger = logging.getLogger(__name__)

NOTICED_S = 0.02  # until a call is noticed that begins to wait
IDLE_S = 10.0  # without a call that waits, after which the thread ends


@dataclass(slots=True)
class Waiting:
    """A call that waits. ``called`` is set when it is worth asking for its permit."""

    wait: HeldWait
    notified: threading.Event = field(default_factory=threading.Event)


class Asker:
    """Has one session, which lives while a call waits.

    After a question without an answer, and for a session that the store forgot or let sleep, the next answer calls all
    that wait: a grant may have ended meanwhile, and by their next refusals they stand in line again.
    """

    def __init__(self, store: Store) -> None:
        self.session = new_name()
        self._store = store
        # Changed by single steps that Python keeps whole, without a lock: a signal handler may acquire. An Event has one,
        # which the thread that the handler interrupted may hold.
        self._waiting: dict[str, Waiting] = {}
        self._new = deque[HeldWait]()  # calls that wait since the last question
        self._forecast = Forecast(self._waits)
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._missed = False  # a question had no answer, and a grant may have ended meanwhile

    def add(self, wait: HeldWait) -> Waiting:
        """Ask for its grant from now on."""
        waiting = Waiting(wait)
        self._waiting[nonce_of(wait.ticket)] = waiting
        self._new.append(wait)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="celery-semaphore-turns", daemon=True
                )
                self._thread.start()
        return waiting

    def discard(self, wait: HeldWait) -> None:
        self._waiting.pop(nonce_of(wait.ticket), None)

    def _waits(self, wait: HeldWait) -> bool:
        waiting = self._waiting.get(nonce_of(wait.ticket))
        return waiting is not None and waiting.wait is wait

    def _run(self) -> None:
        while not self._is_idle():
            while self._new:
                self._forecast.add(self._new.popleft(), 0.0)  # first of all: nothing is known of it
            pause, least = self._question()
            time.sleep(least)  # a new call may be the next, but a crowd must not ask one by one
            self._pause(pause - least)

    def _pause(self, seconds: float) -> None:
        """Sleep for so long, or until another call waits."""
        end = time.monotonic() + seconds
        while not self._new and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, NOTICED_S))

    def _is_idle(self) -> bool:
        """Sleep until a call waits; without one for long, this thread ends."""
        if not self._waiting:
            self._pause(IDLE_S)
        with self._starting:
            if not self._waiting:  # else it was added since, and this thread goes on
                self._thread = None
            return self._thread is None

    def _question(self) -> tuple[float, float]:
        """Ask once; return the seconds until the next question, and until one for a call that came meanwhile."""
        waiting, first, turns = self._waiting.copy(), self._forecast.first(), None
        try:
            turns = self._store.ask(self.session, look=first)
        except SemaphoreError as error:
            if not self._missed:
                logger.warning("grants cannot be asked for, trying on: %s", error)
        except Exception:
            logger.exception("grants could not be asked for, trying on")
        now = time.monotonic()
        self._forecast.learn(first, turns.expected if turns else {}, now)
        if turns is None:
            self._missed = True
            return SLOWEST_S, SLOWEST_S
        self._tell(waiting, turns, all_of_them=turns.slept or self._missed)
        self._missed = False
        self._forecast.tidy(len(waiting))
        return self._forecast.pause(turns.sessions, now)

    def _tell(self, waiting: dict[str, Waiting], turns: Turns, *, all_of_them: bool) -> None:
        for nonce, each in waiting.items():
            if all_of_them or nonce in turns.granted:
                each.notified.set()


_by_store: dict[Store, Asker] = {}
# A forked child has neither its parent's thread nor its session.
os.register_at_fork(after_in_child=_by_store.clear)


def asker_of(store: Store) -> Asker:
    """Return the one of this process, made when it is first needed."""
    return _by_store.get(store) or _by_store.setdefault(store, Asker(store))
