"""Load resources when a call first looks at them, and say what became of them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from ..engine.codec import WaitTexts, decode_resource, encode_resource, encode_until
from ..engine.resource import Resource
from .documents import RESOURCE, Changes, Document, Key
from .hints import keys_of
from .tombstones import DocumentTombstones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..engine.stored_wait import StoredWait
    from .documents import Transaction

IDLE_LEASES = 10  # for so long a resource is kept that keeps nothing


class LoadedResource:
    """One resource as it was read, and as it is now."""

    def __init__(self, transaction: Transaction, name: str) -> None:
        self.key = Key(RESOURCE, name)
        body = transaction.get(self.key)
        if body is None:
            self.at, self._texts = Resource(name), WaitTexts()
        else:
            self.at, self._texts = decode_resource(name, body)
        self._before = body or encode_resource(self.at, self._texts)
        self._waits, self._granted = dict(self.at.tickets), frozenset(self.at.grants)
        self._tombstones = DocumentTombstones(transaction, name)
        self.at.released = self._tombstones

    def saved(self, now: int, lease: int, *, anew: bool) -> Document | None:
        """Return the document to be written, or None if there is no change: that a call looked at it is none.

        A tombstone is a change, even of a resource that keeps nothing: an acquire of the same holder that is still on
        its way must find that the resource is another one, and then the tombstone.
        """
        body = encode_resource(self.at, self._texts)
        if body == self._before and not (anew or self._tombstones.marked):
            return None
        if self.at.idle():
            return Document(body, expires=now + IDLE_LEASES * lease)
        return Document(body, due=self.at.reaped_at)

    def tombstones(self) -> Changes:
        marked = self._tombstones.marked.items()
        return {
            self._tombstones.key(holder): Document(encode_until(until), expires=until)
            for holder, until in marked
        }

    def hints(self) -> tuple[set[Key], set[Key]]:
        """Return what belonged to the waits that the call changed, and what belongs to them now."""
        before, after = self._waits, self.at.tickets
        granted = self.at.grants.keys()
        changed = [
            nonce
            for nonce in before.keys() | after.keys()
            if before.get(nonce) is not after.get(nonce)
            or (nonce in self._granted) != (nonce in granted)
        ]
        return _keys(changed, before, self._granted), _keys(changed, after, granted)


def _keys(nonces: list[str], waits: Mapping[str, StoredWait], granted: Collection[str]) -> set[Key]:
    found = set[Key]()
    for nonce in nonces:
        if wait := waits.get(nonce):
            found.update(keys_of(wait, granted=nonce in granted))
    return found


class LoadedResources(MutableMapping[str, Resource]):
    """Holds the resources that the call looked at: iterating yields these alone, but each can be asked for."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.loaded: dict[str, LoadedResource] = {}

    def __getitem__(self, name: str) -> Resource:
        found = self.loaded.get(name)
        if found is None:
            found = self.loaded[name] = LoadedResource(self._transaction, name)
        return found.at

    def __setitem__(self, name: str, at: Resource) -> None:
        raise NotImplementedError  # a call changes what it was given

    def __delitem__(self, name: str) -> None:
        raise NotImplementedError  # the server deletes what idled for long

    def __iter__(self) -> Iterator[str]:
        return iter(self.loaded)

    def __len__(self) -> int:
        return len(self.loaded)
