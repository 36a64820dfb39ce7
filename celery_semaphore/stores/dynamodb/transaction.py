"""Read documents, and write each on condition that it has the version that was read.

Reads of several items are no snapshot. So a resource says which version of the store's document its writer knew, and
one that is read beside an older version of that document is not used: else a call could obey a limit that was changed
before the resource was made.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.key import all_keys_of, semaphore_of
from ...errors import StoreUnavailable
from ..documents.documents import (
    GRANT,
    MESSAGE,
    PAYLOAD,
    RESOURCE,
    STORE,
    TOMBSTONE,
    WAIT,
    Busy,
    Document,
    Key,
)
from ..encoding import microseconds
from ..engine.codec import WaitTexts, encode_resource, encode_until
from ..engine.resource import Resource
from .errors import Driver, NoAnswer, is_of_change
from .items import (
    USED,
    Item,
    Row,
    item_of,
    key_of,
    name_of,
    of_index,
    of_partition,
    resource_of,
)
from .tombstones import placed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ..documents.documents import Changes
    from .documents import DynamoDocuments

T = TypeVar("T")
Identity = tuple[str, str]
Write = tuple[
    str, dict[str, Any]
]  # its kind, as a part of a transaction is named, and its parameters

HINTS = frozenset({WAIT, GRANT, MESSAGE})
TOGETHER = 100  # items in one read, and in one transaction
WRITTEN = 25  # items in one request that writes without conditions
MADE_FOR_S = 3600  # for so long a resource is kept that was made and not used
OTHERS = "other clients changed the same documents, and each attempt takes several requests"
CHANGED = "the store's document was changed meanwhile"


class DynamoTransaction:
    """One attempt: what it has read, with the versions."""

    def __init__(
        self, documents: DynamoDocuments, keys: Collection[Key], expected: Collection[Key] = ()
    ) -> None:
        self._documents, self._link = documents, documents.link
        self._read: dict[Key, Row | None] = {}
        self._expected = expected
        # Of the resources that are written: their versions, and the tombstones in them.
        self._written: dict[Key, int] = {}
        self._ended: dict[Key, dict[str, int]] = {}
        wanted = [*dict.fromkeys([*keys, *_declared(keys)])]
        self._read |= self._read_first(wanted, [key for key in keys if key.kind == RESOURCE])
        if self._is_store_too_old(wanted):
            self._read |= self._fetched([Key(STORE)])
        if not wanted:
            self._fetched([Key(STORE)])  # for the time
        self.now = documents.now(max((row.at for row in self._read.values() if row), default=0))

    # -- reads

    def _read_first(self, wanted: Sequence[Key], resources: Sequence[Key]) -> dict[Key, Row | None]:
        """Read these documents, and in the same request what is expected, if that may be read beside the resources.

        A release writes its tombstone before the resource. So a tombstone that is read before its resource may be
        missing beside the resource as it is after the release, and its holder would get a permit that is never
        released. A resource that still has the version that this process wrote before the request began had it at
        each moment of the request, so it counts as read first. In any other case ``get`` reads what is expected.
        """
        before = self._documents.versions.of(resources)
        if not (before and self._expected):
            return self._fetched(wanted)
        found = self._fetched([*dict.fromkeys([*wanted, *self._expected])])
        if all((row := found[key]) and row.version == before[key] for key in resources):
            return found
        self._documents.versions.forget(resources)
        return {key: found[key] for key in wanted}

    def expect(self, keys: Collection[Key]) -> None:
        self._expected = keys

    def get(self, key: Key) -> bytes | None:
        if key.kind == TOMBSTONE and (
            until := self._ended_at(Key(RESOURCE, key.name)).get(key.item)
        ):
            return encode_until(until)
        if key not in self._read:
            together = self._expected if key in self._expected else ()
            wanted = [*dict.fromkeys([key, *(each for each in together if each not in self._read)])]
            self._read |= self._fetched(wanted)
            if self._is_store_too_old(wanted) and not self._is_store_as_read():
                raise Busy(CHANGED)
        row = self._read[key]
        return row.body if row else None

    def all_of(self, kind: str, name: str = "") -> dict[str, bytes]:
        items = [
            item
            for answer in self._documents.queried(**of_partition(Key(kind, name).partition))
            for item in answer["Items"]
        ]
        rows = {name_of(item): Row.of(item) for item in items}
        return {
            name: row.body
            for name, row in rows.items()
            if row.expires is None or row.expires > self.now
        }

    def in_use(self) -> list[str]:
        answers = self._documents.queried(**of_index(USED))
        return sorted(resource_of(item) for answer in answers for item in answer["Items"])

    def keys_of(self, semaphore: str) -> list[str]:
        partition = Key(RESOURCE, semaphore_of(semaphore)).partition
        asked = of_partition(partition) | {"ProjectionExpression": "sk"}
        names = [
            resource_of(item)
            for answer in self._documents.queried(**asked)
            for item in answer["Items"]
        ]
        return [name for name in names if name == semaphore or name.startswith(f"{semaphore}/")]

    def end(self) -> None:
        """Do nothing: nothing is locked."""

    def _fetched(self, keys: Sequence[Key]) -> dict[Key, Row | None]:
        """Read these documents as they are now."""
        if len(keys) == 1:
            answer = self._link.call("get_item", Key=key_of(keys[0]), ConsistentRead=True)
            item = answer.get("Item")
            return {keys[0]: Row.of(item) if item else None}
        rows = dict[Identity, Row]()
        for some in _chunks([key_of(key) for key in keys], TOGETHER):
            rows |= {_identity(item): Row.of(item) for item in self._link.read(some)}
        return {key: rows.get(_identity(key_of(key))) for key in keys}

    def _ended_at(self, resource: Key) -> Mapping[str, int]:
        """Return the tombstones that lie in a resource itself, as far as it was read."""
        row = self._read.get(resource)
        return row.ended if row else {}

    def _is_store_too_old(self, keys: Collection[Key]) -> bool:
        """Return whether a resource is newer than the store's document, as far as is known."""
        if Key(STORE) not in self._read:
            return False
        rows = [row for key in keys if key.kind == RESOURCE and (row := self._read[key])]
        return any(row.seen is None or row.seen > self._seen() for row in rows)

    def _seen(self) -> int:
        row = self._read.get(Key(STORE))
        return row.version if row else 0

    def _is_store_as_read(self) -> bool:
        found = self._fetched([Key(STORE)])[Key(STORE)]
        return (found.version if found else 0) == self._seen()

    # -- writes

    def commit(self, changes: Changes, marks: Changes) -> bool:
        for key in changes:
            if key not in self._read:
                self._read |= self._fetched([key])
        if not self._makes([key for key in changes if self._is_new(key) and changes[key]]):
            return False
        marks = self._put_into_resources(changes, marks)
        # Hints are deleted with the changes: later it could be the hint of another client that came meanwhile.
        gone = {key: None for key, each in marks.items() if not each and key.kind != PAYLOAD}
        if not self._is_kept(
            {key: each for key, each in marks.items() if each}, {**gone, **changes}
        ):
            return False
        self._documents.versions.note(self._written)
        self._delete([key for key, each in marks.items() if not each and key not in gone])
        return True

    def _is_kept(self, put: Changes, changes: Changes) -> bool:
        """Put the marks, then make the changes; if those are surely not made, no document refers to a message."""
        parts = [*self._parts(changes)]
        messages = [key for key in put if key.kind == PAYLOAD and len(parts) == 1]
        left = self._documents.left_messages
        seen = _version(self._seen()) if Key(STORE) in changes else self._seen()
        try:
            self._mark(put)
            is_kept = all(self._write(some, compared, seen) for some, compared in parts)
        except NoAnswer:
            raise
        except StoreUnavailable:
            left.note(messages)
            raise
        if not is_kept:
            left.note(messages)
        return is_kept

    def _delete(self, messages: Sequence[Key]) -> None:
        """Delete these messages, and others that could not be deleted before: what was committed stays all the same."""
        left = self._documents.left_messages
        together = [*messages, *left.taken(WRITTEN - len(messages))]
        try:
            self._mark(dict.fromkeys(together))
        except StoreUnavailable:
            left.note(together)

    def _put_into_resources(self, changes: Changes, marks: Changes) -> Changes:
        """Put tombstones into the resources that are written; return the marks that are documents of their own."""
        for key, document in changes.items():
            if key.kind == RESOURCE and document:
                self._ended[key], marks = placed(key.name, self._ended_at(key), marks, self.now)
        return marks

    def _is_new(self, key: Key) -> bool:
        return key.kind == RESOURCE and self._read[key] is None

    def _makes(self, new: Sequence[Key]) -> bool:
        """Make resources without content, and compare the store's document after that.

        An operator's decision that comes later finds them among the keys, and so writes them anew.
        """
        for key in new:
            body = encode_resource(Resource(key.name), WaitTexts())
            row = Row(_version(0), body, self.now, None, None)
            document = Document(body, expires=self.now + microseconds(MADE_FOR_S))
            put = {"Item": item_of(key, document, row)} | _if_as(None)
            if not self._sent([("Put", put)]):
                return False
            self._read[key] = row
        return not new or Key(STORE) not in self._read or self._is_store_as_read()

    def _parts(self, changes: Changes) -> Iterator[tuple[Changes, Sequence[Key]]]:
        """Yield what is written in each transaction, and the resources that it compares: one, if that can be.

        Else hints that are deleted come before all others. Their resource is as it was read; and all that a line loses
        at once is overdue, or an operator has ended it.
        """
        keys = sorted(changes)
        if len(keys) > TOGETHER:
            compared = [key for key in keys if key.kind == RESOURCE][: TOGETHER // 2]
            hints = [key for key in keys if key.kind in HINTS and changes[key] is None]
            for some in _chunks(hints, TOGETHER - len(compared)):
                yield dict.fromkeys(some), compared
            keys = [key for key in keys if key not in {*hints}]
        for some in _chunks(keys, TOGETHER):
            yield {key: changes[key] for key in some}, ()

    def _write(self, changes: Changes, compared: Sequence[Key], seen: int) -> bool:
        writes = [self._swap(key, document, seen) for key, document in changes.items()]
        return self._sent([*writes, *map(self._check, compared)])

    def _swap(self, key: Key, document: Document | None, seen: int) -> Write:
        """Return what changes an item that is as it was read."""
        if document is None and key not in self._read:  # a mark
            return "Delete", {"Key": key_of(key)}
        row = self._read[key]
        if document is None:
            return "Delete", {"Key": key_of(key)} | _if_as(row)
        version = seen if key == Key(STORE) else _version(row.version if row else 0)
        known = seen if key.kind == RESOURCE else None
        ended = self._ended.get(key, {})
        if ended and document.expires is not None:  # the lease may have been longer
            document = replace(document, expires=max(document.expires, *ended.values()))
        new = Row(version, document.body, self.now, known, document.expires, ended)
        if key.kind == RESOURCE:
            self._written[key] = version
        return "Put", {"Item": item_of(key, document, new)} | _if_as(row)

    def _check(self, key: Key) -> Write:
        return "ConditionCheck", {"Key": key_of(key)} | _if_as(self._read[key])

    def _sent(self, writes: Sequence[Write]) -> bool:
        """Make all these writes, or none; return whether the items were as they were read."""
        try:
            if len(writes) > 1:
                table = {"TableName": self._link.place.table}
                items = [{kind: table | given} for kind, given in writes]
                self._link.call_as_is("transact_write_items", TransactItems=items)
            else:
                ((kind, given),) = writes
                operation = "put_item" if kind == "Put" else "delete_item"
                self._link.call_as_is(operation, TableName=self._link.place.table, **given)
        except Driver as error:
            if is_of_change(error):
                self._link.note(OTHERS)
                return False
            raise self._link.translated(error) from error
        return True

    def _mark(self, marks: Mapping[Key, Document | None]) -> None:
        """Write these, or delete them, whatever is there."""
        requests = [_request(key, document, self.now) for key, document in marks.items()]
        for some in _chunks(requests, WRITTEN):
            self._link.write(some)


def _declared(keys: Collection[Key]) -> set[Key]:
    """Return where the limits are that are declared for all keys of these semaphores: each call looks there."""
    return {Key(RESOURCE, all_keys_of(key.name)) for key in keys if key.kind == RESOURCE}


def _request(key: Key, document: Document | None, now: int) -> dict[str, Any]:
    if document is None:
        return {"DeleteRequest": {"Key": key_of(key)}}
    row = Row(_version(0), document.body, now, None, document.expires)
    return {"PutRequest": {"Item": item_of(key, document, row)}}


def _if_as(row: Row | None) -> dict[str, Any]:
    """Return the condition that an item has the version that was read, or is not there."""
    if row is None:
        return {"ConditionExpression": "attribute_not_exists(pk)"}
    return {
        "ConditionExpression": "version = :version",
        "ExpressionAttributeValues": {":version": {"N": str(row.version)}},
    }


def _version(before: int) -> int:
    """Return a new version. A document that was deleted and is made anew must have none of its old ones."""
    return max(time.time_ns() // 1000, before + 1)


def _identity(item: Item) -> Identity:
    return item["pk"]["S"], item["sk"]["S"]


def _chunks(parts: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(parts), most):
        yield parts[start : start + most]
