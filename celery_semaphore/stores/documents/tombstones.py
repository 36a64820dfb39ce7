"""Keep the tombstones of a resource as documents of their own: R4, which a release must not pay for in its resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.codec import decode_until
from .documents import TOMBSTONE, Key

if TYPE_CHECKING:
    from .documents import Transaction


class DocumentTombstones:
    """The marks of one resource in one attempt; ``marked`` are those that are to be written."""

    def __init__(self, transaction: Transaction, resource: str) -> None:
        self._transaction, self._resource = transaction, resource
        self.marked: dict[str, int] = {}
        self._expired_by = 0

    def key(self, holder: str) -> Key:
        return Key(TOMBSTONE, self._resource, holder)

    def mark(self, holder: str, until: int) -> None:
        self.marked[holder] = until

    def has(self, holder: str) -> bool:
        if holder in self.marked:
            return True
        body = self._transaction.get(self.key(holder))
        return body is not None and decode_until(body) > self._expired_by

    def drop_expired(self, now: int) -> None:
        """Note the time: the server deletes what has expired."""
        self._expired_by = now
