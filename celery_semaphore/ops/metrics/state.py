"""State: the sums of a collection, by semaphore. A collection reads the totals of all keys from the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...core.key import names_of, semaphore_of
from ...core.totals import Totals
from ...metrics.catalogue import (
    CAPACITY,
    IDLE_WHILE_WAITING,
    KEYS,
    LIMIT,
    OLDEST_WAIT,
    OUTBOX,
    OUTBOX_OLDEST,
    PERMITS,
    UNSATISFIABLE,
    WAITING,
)
from ...metrics.figures import Figure
from ...metrics.labels import BoundedLabel, semaphore_label


def is_paused(key: Totals) -> bool:
    return key.paused or key.limit == 0


def in_force_of(key: Totals) -> int:
    """Return the limit in force: 0 during a pause, and where none is known."""
    return 0 if key.paused else key.limit or 0


def free_of(key: Totals) -> int:
    """Return how much of the limit in force no permit and no grant takes."""
    return max(in_force_of(key) - key.occupied, 0)


def blocked_of(key: Totals) -> int:
    """Return how many waits in transit would be refused again if a worker received their messages now.

    Waits that can be granted go first; what is left of the free permits admits the rest.
    """
    return max(key.in_transit - max(free_of(key) - key.parked - key.reachable, 0), 0)


def idle_of(key: Totals) -> int:
    """Return how many permits are free although waits that can be granted them stand in line."""
    return min(free_of(key), max(key.parked + key.reachable - key.set_aside, 0))


def is_used(key: Totals) -> bool:
    """Return False for a key that nothing uses any more, although the list of keys still has it."""
    return bool(key.held or key.granted or key.waiting or key.outbox)


@dataclass(slots=True)
class SemaphoreSums:
    """The sums over all keys of one semaphore."""

    limits: dict[str, int] = field(default_factory=dict)  # the smallest, by the origin of the limit
    held: int = 0
    granted: int = 0
    capacity: int = 0
    used: int = 0
    saturated: int = 0
    paused: int = 0
    parked: int = 0
    reachable: int = 0
    in_transit: int = 0
    blocked: int = 0
    idle: int = 0
    set_aside: int = 0
    oldest_wait: float = 0.0
    outbox: int = 0
    outbox_oldest: float = 0.0

    @property
    def waiting(self) -> int:
        """The number of all waits."""
        return self.parked + self.reachable + self.in_transit

    @property
    def unfinished(self) -> int:
        """The number of what still needs a worker: permits, grants, waits and messages to be sent."""
        return self.held + self.granted + self.waiting + self.outbox

    def add_limit(self, key: Totals) -> None:
        if key.limit is not None:
            set_by = "operator" if key.set_by_operator else "declared"
            self.limits[set_by] = min(key.limit, self.limits.get(set_by, key.limit))

    def add(self, key: Totals) -> None:
        if not is_used(key):
            return
        self.add_limit(key)
        self.paused += is_paused(key)
        # What a pause leaves running is not above a limit: the use of the limits is at most 1 with it.
        self.capacity += key.occupied if is_paused(key) else in_force_of(key)
        self.saturated += 0 < in_force_of(key) <= key.occupied
        self.used += 1
        self.held += key.held
        self.granted += key.granted
        self.parked += key.parked
        self.reachable += key.reachable
        self.in_transit += key.in_transit
        self.blocked += blocked_of(key)
        self.idle += idle_of(key)
        self.set_aside += key.set_aside
        self.oldest_wait = max(self.oldest_wait, key.oldest_wait or 0.0)
        self.outbox += key.outbox
        self.outbox_oldest = max(self.outbox_oldest, key.outbox_oldest or 0.0)

    def figures(self, semaphore: str) -> Iterator[Figure]:
        for set_by, limit in self.limits.items():
            yield LIMIT, (semaphore, set_by), limit
        for metric, by_state in (
            (PERMITS, {"held": self.held, "granted": self.granted}),
            (KEYS, {"used": self.used, "saturated": self.saturated, "paused": self.paused}),
            (
                WAITING,
                {"parked": self.parked, "kept": self.reachable, "in_transit": self.in_transit},
            ),
        ):
            for state, value in by_state.items():
                yield metric, (semaphore, state), value
        for metric, single in (
            (CAPACITY, self.capacity),
            (IDLE_WHILE_WAITING, self.idle),
            (OLDEST_WAIT, self.oldest_wait),
            (UNSATISFIABLE, self.set_aside),
            (OUTBOX, self.outbox),
            (OUTBOX_OLDEST, self.outbox_oldest),
        ):
            yield metric, (semaphore,), single


class State:
    """The sums of all semaphores; those that a task of the app declares are there even if nothing uses them."""

    def __init__(self, bound: BoundedLabel, declared: Iterable[str]) -> None:
        self.semaphores: dict[str, SemaphoreSums] = {}
        self.skipped = 0  # keys that were not read
        self.seconds = 0.0  # duration of the collection
        self._bound = bound
        for name in declared:
            self._of(name)

    def add_limit(self, unused: Totals) -> None:
        """Add what is in force where nothing is in use: at a semaphore without a key, or at any key of it."""
        self._of(semaphore_of(unused.resource)).add_limit(unused)

    def add(self, key: Totals) -> None:
        self._of(semaphore_of(key.resource)).add(key)

    def figures(self) -> Iterator[Figure]:
        for label, sums in self.semaphores.items():
            yield from sums.figures(label)

    def _of(self, semaphore: str) -> SemaphoreSums:
        label = self._bound(semaphore_label(names_of(semaphore)[0]))
        return self.semaphores.setdefault(label, SemaphoreSums())
