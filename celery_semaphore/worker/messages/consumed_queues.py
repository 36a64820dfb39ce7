"""ConsumedQueues: say in the store which queues this worker consumes, and learn which ones no worker does.

The rows are those of docs/maintain/architecture.md, chapter 12. How it fails:

* A worker is killed: it counts for ``CONSUMED_FOR_S`` or a lease (K2), and permits that are sent to its queues
  meanwhile idle for ``take_up``.
* Its connection to the broker is lost: it says nothing until it has another one. So a short outage, which all workers
  notice at once, sends no parked task to the broker, and after a long one the worker does not count.
* The store forgets, or is away: the next sweep says it again.
* A sweep says it in the moment of the farewell: one lock lets the farewell be the last word.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from hashlib import sha256

from ...core.names import new_name
from ...core.store import Store
from .hourly_warnings import HourlyWarnings

logger = logging.getLogger(__name__)

ANSWER_LASTS_S = 1.0  # how long an answer of the store counts: a busy sender must not ask for each


class ConsumedQueues:
    """Knows which queues are consumed, for any thread of a worker's main process.

    A process that is no worker consumes none, and only asks. In the store the names of queues have the ``broker``
    before them: another broker may have a queue of the same name.
    """

    def __init__(self, store: Callable[[], Store], broker: Callable[[], str] = str) -> None:
        self._store = store
        self._broker = broker
        self._name = ""
        self._read: Callable[[], Collection[str]] | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._left: frozenset[str] = frozenset()  # by the farewell
        self._farewell = threading.Event()
        self._said: frozenset[str] = frozenset()
        self._answers: dict[str, tuple[float, bool]] = {}  # of the store: until when, unconsumed
        self._warnings = HourlyWarnings(logger)

    def connected(self, read: Callable[[], Collection[str]]) -> None:
        """Say from now on which queues the worker consumes; ``read`` returns those of the present moment."""
        if self._ended:
            return
        # Not earlier: the process may fork into several workers.
        self._name = self._name or new_name()
        self._read = read

    def disconnected(self) -> None:
        """Say nothing until there is a connection to the broker again."""
        self._read = None

    def leave(self) -> None:
        """Let the next call of ``say`` be the worker's farewell: it consumes nothing any more."""
        self._left |= self._said
        self._ended = True
        self._read = tuple

    def join(self, timeout: float) -> None:
        """Wait until the store knows the farewell, for ``timeout`` seconds at most."""
        if self._said:
            self._farewell.wait(timeout)

    def is_connected(self) -> bool:
        """Return whether the worker has a connection to the broker, as far as it knows."""
        return self._read is not None

    def own(self) -> frozenset[str]:
        """Return the queues that this worker consumes at this moment."""
        read = self._read
        return frozenset() if read is None else frozenset(read())

    def say(self) -> None:
        """Tell the store which queues are consumed now, and which no more."""
        with self._lock:
            if self._read is None:
                return
            now = self.own()
            left = self._said - now
            if now or left:
                self._said |= now  # in case the answer is lost
                self._store().consume(self._name, self._stored(now), self._stored(left))
                self._said = now
            if self._ended and not self._said:
                self._farewell.set()

    def unconsumed(self, queues: Iterable[str]) -> frozenset[str]:
        """Return which of these queues no worker consumes; for one thread only."""
        own = self.own()
        if self._read is not None and own != self._said:
            self.say()  # else the store would name this worker as a consumer of what it just left
        now, others = time.monotonic(), {queue for queue in queues if queue not in own}
        self._answers = {queue: known for queue, known in self._answers.items() if known[0] > now}
        if unknown := others - self._answers.keys():
            stored = self._stored(unknown)
            found = {stored[name] for name in self._store().unconsumed(stored)}
            known_until = now + ANSWER_LASTS_S
            self._answers |= {queue: (known_until, queue in found) for queue in unknown}
        return frozenset(queue for queue in others if self._answers[queue][1])

    def _stored(self, queues: Iterable[str]) -> dict[str, str]:
        """Return these queues by their names in the store."""
        return {of_broker(self._broker(), queue): queue for queue in queues}

    def warn(self, queue: str) -> None:
        """Warn, once in an hour for each queue, that waiting tasks go back to the broker."""
        # Where the last worker is stopped, as at a deploy, there is nothing to be done.
        why, then = "", f"; start a worker with -Q {queue}, or purge the queue"
        if queue in self._left:
            why, then = " now that this worker ends", ""
        self._warnings.warn(
            queue,
            f"no worker consumes queue {queue!r}{why}: its waiting tasks go back to the broker, keep their places and"
            f" wait there{then}",
        )


def of_broker(broker: str, queue: str) -> str:
    """Return the name of a queue in the store; a digest of its broker, since the whole may be too long."""
    return f"{sha256(broker.encode()).hexdigest()[:16]}/{queue}" if broker else queue
