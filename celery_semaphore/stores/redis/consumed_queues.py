"""Know which brokers are used, and which of their queues: docs/maintain/architecture.md, chapter 12."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoding import check_consumed, check_name
from . import scripts
from .answers import text
from .connection import pack

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .keys import Keys
    from .runner import Runner

MANY = 100  # queues in one call: other calls wait meanwhile


class ConsumedQueues:
    """Makes the calls about consumed queues through a runner."""

    def __init__(self, runner: Runner, keys: Keys) -> None:
        self._runner = runner
        self._keys = keys

    def consume(self, worker: str, queues: Collection[str], left: Collection[str]) -> None:
        check_consumed(worker, [*queues, *left])
        for some in _batches(queues):
            self._runner.run(scripts.CONSUME, [], [worker, len(some)], self._declared(some))
        for some in _batches(left):
            self._runner.run(scripts.CONSUME, [], [worker, 0], self._declared(some))

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        found: list[str] = []
        for some in _batches(queues):
            _, counts = self._runner.run(scripts.UNCONSUMED, [], [], self._declared(some))
            found += [queue for queue, count in zip(some, counts, strict=True) if not count]
        return frozenset(found)

    def brokers(self, own: str) -> frozenset[str]:
        check_name("broker", own)
        key = 1, pack([self._keys.common("brokers")])
        _, names = self._runner.run(scripts.BROKERS, [], [own], key)
        return frozenset(map(text, names))

    def _declared(self, queues: Sequence[str]) -> tuple[int, bytes]:
        return len(queues), pack([self._keys.consumers(queue) for queue in queues])


def _batches(queues: Collection[str]) -> list[list[str]]:
    names = list(queues)
    return [names[start : start + MANY] for start in range(0, len(names), MANY)]
