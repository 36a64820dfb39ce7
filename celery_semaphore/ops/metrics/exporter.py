"""Exporter: collects the state of all semaphores from time to time, and keeps the last one for all that ask."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.signal_safe_event import SignalSafeEvent
from ...core.store import Store
from ...metrics.catalogue import (
    COLLECTION_SECONDS,
    KEYS_SKIPPED,
    RUNNABLE,
    SCALE_FLOOR,
    UP,
)
from ...metrics.figures import Figure
from ...metrics.labels import BoundedLabel
from .collection import collect
from .load import Load, loads_of_workers, ready_in, unacknowledged
from .scale import Scale, scale_of
from .state import State

logger = logging.getLogger(__name__)

STORE, BROKER = "the store", "the broker"
MAX_QUEUES = 100  # with figures of their own; each one that is asked for is read at each collection from then on
STALE_S = 60.0  # beyond twice the interval: a collection that hangs must not freeze the figures


class UnknownQueue(LookupError):
    """Neither the broker, nor a worker, nor the app, nor the command line has a queue of this name."""


class Unanswered(Exception):
    """There are no figures now; the text says which server did not answer."""


@dataclass(frozen=True, slots=True)
class QueueLoads:
    """What the broker and the workers have of the queues, at one collection."""

    queues: frozenset[str]  # that were read, whether they exist or not
    ready: Mapping[str, int]
    loads: Mapping[str, Load]
    unacknowledged: int  # messages of all queues that the broker keeps for workers, dead or alive


@dataclass(frozen=True, slots=True)
class Collection:
    """What the servers answered, each as a whole or not at all."""

    state: State | None
    work: QueueLoads | None
    at: float  # the exporter's clock, in seconds


class Exporter:
    """Collects in one thread; other threads read the last collection. It changes nothing in store and broker."""

    def __init__(
        self,
        app: Any,
        store: Store,
        *,
        interval: float,
        max_keys: int,
        queues: Sequence[str] = (),
        declared: Iterable[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._store = store
        self._max_keys = max_keys
        self._longest = 2 * interval + STALE_S
        self._declared = list(declared)
        self._bound = BoundedLabel()
        self._clock = clock
        self._collected = Collection(None, None, clock())
        self._named = frozenset(queues)
        self._queues = self._named
        self._outages: dict[str, str] = {}
        self._stopped = False
        self._event = (
            SignalSafeEvent()
        )  # a signal handler that interrupts a wait must find no lock taken

    # -- collecting

    def run(self, interval: float) -> None:
        """Collect every ``interval`` seconds until ``stop`` is called."""
        while not self._stopped:
            self.collect()
            self._pause(interval)

    def stop(self) -> None:
        """End ``run`` soon; a signal handler may call this."""
        self._stopped = True
        self._event.set()

    def _pause(self, seconds: float) -> None:
        if not self._stopped:
            self._event.wait(seconds)

    def collect(self) -> bool:
        """Collect once, and return whether the store answered. What did not answer has no figures."""
        state = self._asked(STORE, self._collect_state)
        # Without queues of interest the broker and the workers have no part in this.
        asks_broker = self._queues or BROKER in self._outages
        work = self._asked(BROKER, self._collect_work) if asks_broker else None
        self._collected = Collection(state, work, self._clock())
        return state is not None

    def _collect_state(self) -> State:
        return collect(self._store, self._bound, self._declared, self._max_keys, self._pause)

    def _collect_work(self) -> QueueLoads:
        # The queues first: a message that a worker receives meanwhile is counted twice, and not missed.
        queues = self._queues
        ready = ready_in(self._app, sorted(queues))
        return QueueLoads(queues, ready, loads_of_workers(self._app), unacknowledged(self._app))

    def _asked(self, server: str, ask: Callable[[], Any]) -> Any:
        """Return the answer, or None after any error. An outage is logged once, for it may last for hours."""
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - whatever a driver raises: the exporter goes on
            self._failed(server, error)
            return None
        if self._outages.pop(server, None):
            logger.warning("%s answers again", server)
        return answer

    def _failed(self, server: str, error: Exception) -> None:
        lines = str(error).splitlines()
        said = f"{type(error).__name__}: {lines[0] if lines else ''}"
        if self._outages.get(server) != said:
            logger.error("%s gives no figures: %.300s", server, said)
        self._outages[server] = said

    # -- reading

    def figures(self) -> Iterator[Figure]:
        """Yield the figures of the last collection; without an answer of the store, ``up`` is all there is."""
        state, work = self._newest()
        yield UP, (), float(state is not None)
        if state is None:
            return
        yield COLLECTION_SECONDS, (), state.seconds
        yield KEYS_SKIPPED, (), float(state.skipped)
        yield from state.figures()
        if work is None:
            return
        for queue in sorted(work.queues):
            if self._is_known(queue, work):
                scale = _scale(queue, state, work)
                yield RUNNABLE, (queue,), scale.runnable
                yield SCALE_FLOOR, (queue,), scale.floor

    def scale(self, queue: str) -> Scale:
        """Return the scale of one queue, and add it to those that each collection reads.

        Raise ``UnknownQueue`` for a queue that does not exist, ``Unanswered`` if there are no figures now.
        """
        state, work = self._newest()
        if state is None:
            raise Unanswered(self._outages.get(STORE, "nothing was collected yet"))
        if BROKER not in self._outages and (work is None or queue not in work.queues):
            work = self._read(queue, work)
        if work is None:
            raise Unanswered(self._outages.get(BROKER, "nothing was collected yet"))
        if not self._is_known(queue, work):
            raise UnknownQueue(queue)
        return _scale(queue, state, work)

    def _read(self, queue: str, work: QueueLoads | None) -> QueueLoads | None:
        """Read a queue now that no collection has read, and remember it if it exists."""

        def read() -> QueueLoads:
            ready = ready_in(self._app, [queue])
            loads = work.loads if work else loads_of_workers(self._app)
            kept = work.unacknowledged if work else unacknowledged(self._app)
            return QueueLoads(frozenset([queue]), ready, loads, kept)

        found: QueueLoads | None = self._asked(BROKER, read)
        if found and self._is_known(queue, found) and len(self._queues) < MAX_QUEUES:
            self._queues = self._queues | {
                queue
            }  # a new set, for another thread iterates over the old one
        return found

    def _newest(self) -> tuple[State | None, QueueLoads | None]:
        last = self._collected
        if self._clock() - last.at > self._longest:
            return None, None
        return last.state, last.work

    def _is_known(self, queue: str, work: QueueLoads) -> bool:
        """Return whether a queue exists; an empty one on Redis does if anything but the broker names it."""
        known = queue in work.ready or queue in work.loads or queue in self._named
        return bool(known or queue in self._app.amqp.queues)


def _scale(queue: str, state: State, work: QueueLoads) -> Scale:
    load, ready = work.loads.get(queue, Load()), work.ready.get(queue, 0)
    return scale_of(state, load, ready, work.unacknowledged)
