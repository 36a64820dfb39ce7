"""A store that answers what a test says, and the totals of one key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from celery_semaphore.core.store import Store
from celery_semaphore.core.totals import Totals
from celery_semaphore.errors import StoreUnavailable

NOTHING = Totals("", None, False, 0, 0, 0, 0, 0, 0, None, 0, None)


def key(resource: str = "api", **counts: Any) -> Totals:
    return replace(NOTHING, resource=resource, **counts)


class FakeStore:
    def __init__(self, *totals: Totals) -> None:
        self.known = {each.resource: each for each in totals}
        self.away: Exception | None = None
        self.asked: list[int] = []  # the sizes of the batches

    def resources(self) -> Iterator[str]:
        if self.away:
            raise self.away
        yield from self.known

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        self.asked.append(len(resources))
        return [self.known[each] for each in resources]

    def close(self) -> None: ...

    def fail(self, text: str = "The store did not answer: refused.") -> None:
        self.away = StoreUnavailable(text)

    @property
    def store(self) -> Store:
        return cast("Store", self)
