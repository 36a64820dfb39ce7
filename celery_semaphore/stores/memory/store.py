"""Keep permits in memory: a lock and a clock around the engine, which is the reference for all stores."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ...core.formats import FORMAT, format_warnings
from ..durations import Durations
from ..encoding import microseconds
from ..engine.engine import Engine
from ..engine.state import StoreState
from ..engine.store import EngineStore
from ..non_reentrant_lock import NonReentrantLock
from ..one_by_one import one_by_one
from ..options import DEFAULTS, StoreOptions
from .durability import durability_of
from .facts import LOST, about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...core.durability import Durability
    from ...core.facts import StoreFacts
    from ...core.refusal import Answer
    from ...core.store import Acquire, HandedOn, Release
    from ...errors import SemaphoreError

T = TypeVar("T")
LOCK_TIMEOUT_S = 2.0  # seconds to wait for other calls of this process


@dataclass
class Kept:
    """Holds the state for all clients of one store in memory."""

    lock: NonReentrantLock = field(default_factory=lambda: NonReentrantLock(LOCK_TIMEOUT_S))
    state: StoreState = field(default_factory=StoreState)


class MemoryStore(EngineStore):
    """Keeps permits in this process."""

    calls_at_once = 1
    one_round_trip = False

    def __init__(
        self, options: StoreOptions = DEFAULTS, *, beside: MemoryStore | None = None
    ) -> None:
        """Make a store of its own, or another client of the store ``beside``: for tests."""
        self.epoch: int | None = None
        self._durations = Durations(options)
        self.kept: Kept = beside.kept if beside else Kept()
        self._lock = self.kept.lock
        self._clock = options.now or time.time

    @property
    def _state(self) -> StoreState:
        return self.kept.state

    def check(self, *, parks: bool = False) -> list[str]:
        epoch = self._state.epoch
        in_force = (epoch.lease, epoch.take_up) if epoch.lease else None
        warnings = [LOST] * parks + format_warnings(epoch.format)
        return warnings + self._durations.examine(in_force)

    def about(self) -> StoreFacts:
        return about(self._state.epoch.lease)

    def durability(self, most: int) -> Durability:
        with self._lock:
            return durability_of(self._state, most)

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        return one_by_one(self, calls)

    def processes(self) -> dict[int, int]:
        return {FORMAT: 1}

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def forget(self) -> None:
        """Lose everything, like a server that restarts without its data."""
        with self._lock:
            self.kept.state = StoreState()

    def remember(self) -> Callable[[], None]:
        """Return a function that loses all later changes, like a failover to a replica that lags."""
        with self._lock:
            kept = deepcopy(self._state)
            kept.epoch.restarted = True

        def lose_the_rest() -> None:
            with self._lock:
                self.kept.state = kept

        return lose_the_rest

    def set_format(self, number: int) -> None:
        """Set the format of the store, as newer processes do: for tests."""
        with self._lock:
            self._state.epoch.format = number

    def _call(self, made: Callable[[Engine], T], concerned: Iterable[str] = ()) -> T:
        """Make a call at this instant, and note what the client learns by it, also by one that raises."""
        del concerned  # all is here
        with self._lock:
            now = microseconds(self._clock())
            engine = Engine(self._state, now, self.epoch, self._durations.in_force)
            try:
                return made(engine)
            finally:
                self.epoch = engine.epoch
                self._durations.adopt(engine.in_force)  # A16
