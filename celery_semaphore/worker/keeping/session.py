"""Session: ask for the grants of the kept messages of one connection to the broker.

The rows are those of docs/maintain/architecture.md, chapter 8. How it fails:

* A stopped worker, or an event loop that hangs: each question waits until the loop has handled the answer to the last
  one. So the session falls asleep, and the grants go to other workers.
* A lost answer, or a store that was away: the next answer has every grant, and the session names all that it keeps.
* A refusal that began while the session slept: its wait is in transit, and is named when it arrives.
* A granted task that finds no free process: its grant is prolonged, for twice as long as a grant lasts. Then the
  session sleeps until a process takes the task, since another worker may have a free one.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf

from ...core.background_thread import BackgroundThread
from ...core.forecast import SLOWEST_S, Forecast
from ...core.lease import BEATS
from ...core.names import new_name
from ...core.session import GRANT_S, NAMED, HeldWait, SessionReply
from ...core.signal_safe_event import SignalSafeEvent
from ...core.store import Outgoing, Store
from ...errors import SemaphoreError
from .kept_message import KeptMessage, KeptWaits
from .pool_line import Room, Unstarted

logger = logging.getLogger(__name__)

VISIT_S = 0.25  # between two visits to the loop while there is nothing to begin
BUSY_S = 0.1  # between two checks for a free process
FORGOT = "the store was restarted or replaced, and may have forgotten permits: for up to %.0f s after that it admits no task"


class Session:
    """Asks in one thread, from ``start`` until ``end``. Only the event loop adds, discards and begins.

    It calls ``visit`` in the loop whenever there may be something to begin, and ``found`` with messages to send.
    """

    def __init__(
        self,
        store: Store,
        in_loop: Callable[[Callable[[], object]], object],
        visit: Callable[[], object],
        found: Callable[[Outgoing], None],
        *,
        epoch: int | None = None,
        processes: Callable[[], int] = lambda: 1,
    ) -> None:
        self.name = new_name()
        self.sessions = 0  # the known number of awake sessions; 0 until it was asked for
        self.epoch = epoch  # the last one known, first that of an earlier connection
        self.unstarted = Unstarted()
        self._store = store
        self._in_loop = in_loop
        self._visit = visit
        self._found = found
        self._event = SignalSafeEvent()
        self._kept = KeptWaits()
        # Changed by atomic operations, without a lock: the loop must not wait for this thread.
        self._granted: set[str] = set()
        self._arrived = deque[tuple[HeldWait, float]]()
        self._unnamed = deque[HeldWait]()
        self._next_at = 0.0  # monotonic time of the next question
        self._woke_at = inf  # waits that were refused before this time may be in transit
        self._visited_at = 0.0
        self._visiting = self._ended = False
        # Used by the thread only.
        self._forecast = Forecast(self._kept.has)
        self._room = Room(processes)
        self._named_at = 0.0
        self._missed = self._asleep = False  # a question had no answer; it sleeps
        self._thread = BackgroundThread(
            "celery-semaphore-grants", self._ask_then_rest, lambda: self._ended, self._sleep
        )

    @property
    def lease(self) -> float:
        """The lease in force, which an operator may change."""
        return self._store.lease

    # -- for the loop

    def start(self) -> None:
        """Start to ask."""
        self._thread.start()

    def add(self, kept: KeptMessage, wait: HeldWait, turn: float, made_at: float) -> None:
        """Ask for the grant of a refused wait from now on.

        ``turn`` is the monotonic time when its turn is expected, and ``made_at`` the one when its request was made.
        """
        nonce = wait.ticket.nonce
        self._kept.add(kept, wait)
        now = time.monotonic()
        # It was refused while the session slept, or so long ago that its grant may have ended meanwhile.
        if made_at <= self._woke_at or now - made_at > GRANT_S:
            self._unnamed.append(wait)
        self._arrived.append((wait, turn))
        if nonce in self._granted or now + min((turn - now) / 4, SLOWEST_S) < self._next_at:
            self._event.set()

    def discard(self, kept: KeptMessage) -> None:
        """Ask no more for a message that is not kept any more."""
        self._kept.discard(kept)

    def granted(self) -> Iterable[KeptMessage]:
        """Yield each granted message once. If one wait has two messages, both begin, and one runs."""
        for nonce in self._granted & self._kept.nonces():
            self._granted.discard(nonce)
            yield from self._kept.messages(nonce)

    def messages(self, nonces: Iterable[str]) -> list[KeptMessage]:
        """Return the messages of these waits."""
        return [kept for nonce in nonces for kept in self._kept.messages(nonce)]

    def own(self, granted: frozenset[str]) -> set[str]:
        """Return which of these granted waits wait here, and note the others for ``add``. For any thread."""
        self._granted.update(granted)  # first, or one that is added now would be noted nowhere
        kept = self._kept.nonces() & granted
        self._granted.difference_update(kept)
        return kept

    def hurry(self) -> None:
        """Ask soon: another worker may have started since the last answer."""
        self._event.set()

    def turns(self) -> dict[str, float | None]:
        """Return the monotonic times when the turns of these waits are expected, by nonce; None if unknown."""
        return self._forecast.turns()

    def end(self) -> None:
        """Let the session sleep for good; its messages go elsewhere."""
        self._ended = True
        self._kept.clear()
        self._event.set()

    def join(self, timeout: float) -> None:
        """Wait until the store knows that the session ended, for ``timeout`` seconds at most."""
        self._thread.join(timeout)

    # -- the thread

    def _ask_then_rest(self) -> None:
        try:
            pause, least = self.ask()
        except Exception as error:  # noqa: BLE001 - an outage is logged once, whatever its error is
            self._failed(error)
            pause, least = SLOWEST_S, SLOWEST_S
        self._rest(pause, least)

    def _rest(self, pause: float, least: float) -> None:
        self._next_at = time.monotonic() + pause
        if not self._ended:
            time.sleep(least)  # many arrivals at once must not cause a question each
            self._event.wait(max(pause - least, 0.0))

    def ask(self) -> tuple[float, float]:
        """Ask once, and wait until the loop has handled the answer.

        Return the seconds until the next question, and the seconds before which no arrival brings it forward.
        """
        if self._missed:
            self._granted = set()
            self._visit_loop()  # revoked tasks must end even without an answer
        if self.unstarted.have_waited(GRANT_S):
            if not self._asleep:
                self._sleep()
            return BUSY_S, 0.0
        self._asleep = False
        self._next_at = inf  # whatever arrives now sets the event
        self._expect_arrived()
        begun, first = self.unstarted.now(), self._forecast.first()
        waits = [wait for wait, _, _ in begun.values()]
        expected: dict[str, float] = {}
        try:
            room = self._room.size()
            reply = self._store.ask(self.name, begun=waits, to_forecast=first, room=room)
            expected = reply.expected
        finally:
            self._forecast.learn(first, expected, time.monotonic())
        for nonce in begun.keys() - reply.granted:
            self.unstarted.forget(nonce, begun[nonce])  # its grant was taken up, or has ended
        self._granted = set(reply.granted)
        self.sessions = reply.sessions
        self._visit_loop()
        self._name(reply)
        self._expect_arrived()
        self._forecast.tidy(len(self._kept))
        if not (self._kept or self.unstarted):
            return self._store.lease / BEATS, 0.0
        return self._forecast.pause(reply.sessions, time.monotonic())

    def _expect_arrived(self) -> None:
        while self._arrived:
            self._forecast.add(*self._arrived.popleft())

    def _visit_loop(self) -> None:
        """Let the loop begin granted messages, and wait for it: without it there is no further question."""
        now = time.monotonic()
        if not (self._granted & self._kept.nonces()) and now - self._visited_at < VISIT_S:
            return
        self._visiting = True
        self._in_loop(self._received)
        while self._visiting and not self._ended:
            self._event.wait(SLOWEST_S)
        self._event.wait(0.0)  # clear what the visit set; earlier arrivals are handled next
        self._visited_at = time.monotonic()

    def _received(self) -> None:
        """Visit, in the loop, and let the thread go on."""
        try:
            if not self._ended:
                self._visit()
        finally:
            self._visiting = False
            self._event.set()

    def _name(self, reply: SessionReply) -> None:
        """Name the waits that the store may not know to wait here.

        These are all, once in a lease and after a missed answer, a sleep or a new epoch; else those that arrived late.
        """
        now = time.monotonic()
        lost = reply.slept or self._missed or reply.epoch != self.epoch
        if lost:
            self._woke_at = now
        all_of_them = lost or now - self._named_at > self._store.lease
        if all_of_them:
            self._unnamed.clear()
            waits = self._kept.waits()
        else:
            waits = [self._unnamed.popleft() for _ in range(len(self._unnamed))]
        for start in range(0, len(waits), NAMED):
            self._store.name(self.name, waits[start : start + NAMED])
        if self._room.opened(len(reply.granted)) or waits:
            # This grants what is free to those, or to waits that were passed over.
            self._found(self._store.reap())
        if all_of_them:
            self._named_at = now
        if self.epoch is not None and reply.epoch != self.epoch:
            logger.warning(FORGOT, self._store.lease * 2 / 3)  # the longest grace
        self.epoch, self._missed = reply.epoch, False

    def _failed(self, error: Exception) -> None:
        """Log each outage once, if a task waits."""
        if not self._missed and self._kept:
            reason = error if isinstance(error, SemaphoreError) else repr(error)
            text = "cannot ask for permits of waiting tasks, retrying: %s"
            logger.warning(text, reason, exc_info=reason is not error)
        self._missed = True

    def _sleep(self) -> None:
        self._asleep = self._missed = True  # so it names all its waits when it asks again
        try:
            self._store.sleep(self.name)
        except SemaphoreError as error:
            logger.debug("the end of the session could not be sent, its lease ends it: %s", error)
