"""Know which brokers are used, and which of their queues: docs/maintain/architecture.md, chapter 12."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoding import check_consumed, check_name
from .answers import texts
from .names import original, stored

if TYPE_CHECKING:
    from collections.abc import Collection

    from .runner import Runner


class ConsumedQueues:
    """Makes the calls about consumed queues through a runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def consume(self, worker: str, queues: Collection[str], left: Collection[str]) -> None:
        check_consumed(worker, [*queues, *left])
        self._runner.run("consume", stored(worker), _stored(queues), _stored(left))

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        ((found,),) = self._runner.run("unconsumed", _stored(queues))
        return frozenset(map(original, texts(found)))

    def brokers(self, own: str) -> frozenset[str]:
        check_name("broker", own)
        found = self._runner.run("brokers", stored(own))
        return frozenset(original(str(name)) for (name,) in found)


def _stored(queues: Collection[str]) -> list[str]:
    return [stored(queue) for queue in queues]
