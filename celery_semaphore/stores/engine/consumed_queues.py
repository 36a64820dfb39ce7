"""Know which brokers are used, and which of their queues: no permit waits for a worker that is not there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.store import BROKER_FOR_S
from ..encoding import microseconds

if TYPE_CHECKING:
    from collections.abc import Collection

BROKER_FOR = microseconds(BROKER_FOR_S)


@dataclass
class ConsumedQueues:
    """Keeps for each queue when each worker said last that it consumes it."""

    said: dict[str, dict[str, int]] = field(default_factory=dict)

    def consume(
        self, now: int, lasts: int, worker: str, queues: Collection[str], left: Collection[str]
    ) -> None:
        """Note what a worker consumes and has left; each note ``lasts`` so many microseconds."""
        for queue in queues:
            self.said.setdefault(queue, {})[worker] = now  # K1
        for queue in left:
            self.said.get(queue, {}).pop(worker, None)
        counted = {queue: self._counted(queue, now, lasts) for queue in self.said}  # K2
        self.said = {queue: workers for queue, workers in counted.items() if workers}

    def unconsumed(self, now: int, lasts: int, queues: Collection[str]) -> frozenset[str]:
        return frozenset(queue for queue in queues if not self._counted(queue, now, lasts))  # K3

    def _counted(self, queue: str, now: int, lasts: int) -> dict[str, int]:
        """K2: return the workers that count; a time further ahead is of before the clock stepped back."""
        said = self.said.get(queue, {})
        return {name: at for name, at in said.items() if abs(now - at) < lasts}


@dataclass
class Brokers:
    """Keeps when a worker named each broker last."""

    named: dict[str, int] = field(default_factory=dict)

    def all(self, now: int, own: str) -> frozenset[str]:
        if own:
            self.named[own] = now
        # K5; a time further ahead is of before the clock stepped back.
        self.named = {name: at for name, at in self.named.items() if abs(now - at) < BROKER_FOR}
        return frozenset(self.named)
