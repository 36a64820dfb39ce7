"""Asker: one thread that asks for the grants of all calls of this process that wait (docs/architecture.md, 8)."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from heapq import nsmallest

from ..errors import SemaphoreError
from .names import new_name
from .session import EXPECTED, HeldWait, Turns
from .store import Store
from .ticket import nonce_of

logger = logging.getLogger(__name__)

SLOWEST_S = 1.0  # between two questions while a call waits
FASTEST_S = 0.005
NOTICED_S = 0.02  # until a call is noticed that begins to wait
IDLE_S = 10.0  # without a call that waits, after which the thread ends
QUESTIONS = 2000  # of all sessions together in a second


@dataclass(slots=True)
class Waiting:
    """A call that waits. ``called`` is set when it is worth asking for its permit."""

    wait: HeldWait
    called: threading.Event = field(default_factory=threading.Event)
    turn: float = 0.0  # monotonic time when it is expected; first of all while nothing is known


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
        self._is_new = False  # a call waits since the last question
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._missed = False  # a question had no answer, and a grant may have ended meanwhile

    def add(self, wait: HeldWait) -> Waiting:
        """Ask for its grant from now on."""
        waiting = Waiting(wait)
        self._waiting[nonce_of(wait.ticket)] = waiting
        self._is_new = True
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="celery-semaphore-turns", daemon=True
                )
                self._thread.start()
        return waiting

    def discard(self, wait: HeldWait) -> None:
        self._waiting.pop(nonce_of(wait.ticket), None)

    def _run(self) -> None:
        while not self._is_idle():
            self._is_new = False
            pause, least = self._question()
            time.sleep(least)  # a new call may be the next, but a crowd must not ask one by one
            self._pause(pause - least)

    def _pause(self, seconds: float) -> None:
        """Sleep for so long, or until another call waits."""
        end = time.monotonic() + seconds
        while not self._is_new and (left := end - time.monotonic()) > 0:
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
        waiting = self._waiting.copy()
        first = nsmallest(EXPECTED, waiting.values(), key=lambda each: each.turn)
        try:
            turns = self._store.ask(self.session, look=[each.wait for each in first])
        except SemaphoreError as error:
            if not self._missed:
                logger.warning("grants cannot be asked for, trying on: %s", error)
            self._missed = True
            return SLOWEST_S, SLOWEST_S
        except Exception:
            logger.exception("grants could not be asked for, trying on")
            self._missed = True
            return SLOWEST_S, SLOWEST_S
        self._tell(waiting, turns, all_of_them=turns.slept or self._missed)
        self._missed = False
        least = min(max(FASTEST_S, turns.sessions / QUESTIONS), SLOWEST_S)
        return min(max(self._next_turn() / 4, least), SLOWEST_S), least

    def _tell(self, waiting: dict[str, Waiting], turns: Turns, *, all_of_them: bool) -> None:
        now = time.monotonic()
        for nonce, each in waiting.items():
            if nonce in turns.expected:
                each.turn = now + turns.expected[nonce]
            if all_of_them or nonce in turns.granted:
                each.called.set()

    def _next_turn(self) -> float:
        now = time.monotonic()
        turns = (each.turn - now for each in self._waiting.copy().values() if each.turn)
        return min(turns, default=4 * SLOWEST_S)


_by_store: dict[Store, Asker] = {}
# A forked child has neither its parent's thread nor its session.
os.register_at_fork(after_in_child=_by_store.clear)


def asker_of(store: Store) -> Asker:
    """Return the one of this process, made when it is first needed."""
    return _by_store.get(store) or _by_store.setdefault(store, Asker(store))
