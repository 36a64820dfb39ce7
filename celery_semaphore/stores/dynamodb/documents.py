"""Keep documents as items of a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..encoding import microseconds
from .items import INDEX, PARKED, USED, Item, of_index, resource_of
from .left_messages import LeftMessages
from .transaction import DynamoTransaction
from .versions import WrittenVersions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ..documents.documents import Key
    from .link import Link

LARGEST_PAYLOAD = 350_000  # bytes: an item has 400 kB
AGAIN_S = 1.5  # a resource that another process has reaped within this time is not reaped again: it would cost as much
LARGEST_LINE = 300_000  # bytes of a resource: a new wait finds no place in a larger one


class DynamoDocuments:
    """The documents of one table."""

    alone_after = sys.maxsize  # nothing can be locked
    largest_payload = LARGEST_PAYLOAD
    largest_line = LARGEST_LINE

    def __init__(self, link: Link, now: Callable[[], float] | None) -> None:
        self.link = link
        self._now = now
        self.versions = WrittenVersions()
        self.left_messages = LeftMessages()

    @property
    def asks_for_time(self) -> bool:
        return self._now is None

    def now(self, newest: int = 0) -> int:
        """Return the server's time; it was asked before."""
        return microseconds(self._now()) if self._now else self.link.clock.now(newest)

    def begin(
        self,
        keys: Collection[Key],
        *,
        alone: bool = False,
        parks: bool = False,
        expected: Collection[Key] = (),
    ) -> DynamoTransaction:
        del alone, parks
        return DynamoTransaction(self, keys, expected)

    def sweep(self, now: int, limit: int) -> list[str]:
        """Return what is due; the server deletes by itself what has expired."""
        # A time that is ahead is of before the clock stepped back.
        due = self._listed("due > :at", now, limit)
        before = now - microseconds(AGAIN_S) if self.asks_for_time else now
        due += self._listed("due <= :at", before, limit - len(due))
        return [resource_of(item) for item in due]

    def _listed(self, condition: str, at: int, limit: int) -> list[Item]:
        if limit < 1:
            return []
        found: list[Item] = self.link.call(
            "query",
            IndexName=INDEX,
            KeyConditionExpression=f"listed = :listed AND {condition}",
            ExpressionAttributeValues={":listed": {"S": USED}, ":at": {"N": str(at)}},
            Limit=limit,
        )["Items"]
        return found

    def queried(self, **given: Any) -> Iterator[dict[str, Any]]:
        """Yield the answers to a query, of which each has a part of the items."""
        start: dict[str, Any] = {}
        while True:
            answer = self.link.call("query", **given, **start)
            yield answer
            if not (last := answer.get("LastEvaluatedKey")):
                return
            start = {"ExclusiveStartKey": last}

    def parked(self, most: int) -> int:
        """Count the parked messages, up to this number."""
        count = 0
        if most < 1:
            return count
        for answer in self.queried(**of_index(PARKED), Select="COUNT", Limit=most):
            count += answer["Count"]
            if count >= most:
                return most
        return count
