"""ProcessState: the parts of a limiter that belong to one process."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.announcer import Announcer
from ..core.breaker import CircuitBreaker
from ..core.lease import LeaseKeeper
from ..core.releaser import Releaser
from ..core.store import Store
from .permits.ledger import Ledger
from .permits.receivers import ReceiverThread


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The parts that belong to one process: connections, locks and threads cannot be shared across a fork."""

    pid: int
    store: Store
    measured: Store  # the same, for a worker's own threads: it measures calls if metrics are on
    breaker: CircuitBreaker
    announce: Announcer
    ledger: Ledger
    keeper: LeaseKeeper
    releaser: Releaser
    receivers: ReceiverThread
