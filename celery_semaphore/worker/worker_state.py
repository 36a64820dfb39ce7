"""WorkerState: what a limiter knows only in a worker's main process, where the bootsteps set it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..core.store import Store
from .keeping.kept_messages import KeptMessages
from .keeping.known_lines import KnownLines
from .keeping.lost_messages import LostMessages
from .messages.parking_watch import ParkingWatch
from .messages.saturation_watch import SaturationWatch


class Metrics(Protocol):
    """The metrics of a worker, which begin and end with it."""

    def start(self) -> None:
        """Start to count, and answer Prometheus."""

    def close(self) -> None:
        """Count the last events, and free the port."""


def call_now(call: Callable[[], object]) -> object:
    """Call the function at once, in a worker without an event loop."""
    return call()


def declare_nothing(_store: Store) -> None:
    """Declare no limit, in a process that is no worker."""


@dataclass(slots=True)
class WorkerState:
    """The state of the worker that runs in this process; elsewhere it stays as it begins."""

    parking: ParkingWatch | None = None  # if any task is parked, or may be
    pool: Any = None  # Celery's, once it is up
    consumer: Any = None  # of task messages, on the current connection
    kept: KeptMessages | None = None  # of the current connection
    lost: LostMessages = field(default_factory=LostMessages)  # of earlier connections
    metrics: Metrics | None = None  # if they are on
    declare: Callable[[Store], object] = declare_nothing  # the limits of its tasks
    saturation: SaturationWatch = field(default_factory=SaturationWatch)
    lines: KnownLines = field(default_factory=KnownLines)  # in which its tasks wait
    homes: frozenset[str] = frozenset()  # queues with a granted queue that it consumes
    in_loop: Callable[[Callable[[], object]], object] = call_now
    # Counts each connect and each loss of the connection to the broker. It never begins anew, not even with the next
    # worker in this process: a message of an older connection must not go back.
    connections: int = 0
