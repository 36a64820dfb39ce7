"""Make items of documents, and read them.

All keys of a semaphore are one partition, so that they can be listed as they are now: what an operator decides is
written to each of them anew. The index ``due`` has the resources in use, and the parked messages, which are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...core.key import semaphore_of
from ..documents.documents import PAYLOAD, RESOURCE, Key, kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..documents.documents import Document

INDEX = "due"
USED, PARKED = "used", "parked"  # what the index lists
Item = dict[str, dict[str, Any]]
_NONE: dict[str, dict[str, Any]] = {"M": {}}
MAY_BE_DELETED = (
    "ttl"  # the attribute with the whole second from which on DynamoDB may delete an item
)


@dataclass(frozen=True)
class Row:
    """What was read of one document."""

    version: int
    body: bytes
    at: int  # when it was written
    seen: int | None  # the version of the store's document that its writer knew; None: it is new
    expires: int | None
    ended: Mapping[str, int] = field(default_factory=dict)  # tombstones that lie in their resource

    @classmethod
    def of(cls, item: Item) -> Row:
        seen, expires = item.get("seen"), item.get("expires")
        return cls(
            int(item["version"]["N"]),
            bytes(item["body"]["B"]),
            int(item["at"]["N"]),
            int(seen["N"]) if seen else None,
            int(expires["N"]) if expires else None,
            {name: int(until["N"]) for name, until in item.get("ended", _NONE)["M"].items()},
        )


def key_of(key: Key) -> Item:
    """Return the attributes that name an item; no part of a key may be empty."""
    if key.kind == RESOURCE:
        return _key(Key(RESOURCE, semaphore_of(key.name)).partition, key.name)
    return _key(key.partition, key.item)


def _key(partition: str, item: str) -> Item:
    return {"pk": {"S": partition}, "sk": {"S": f"#{kept(item)}"}}


def name_of(item: Item) -> str:
    """Return the last part of an item's key, as ``kept``."""
    return str(item["sk"]["S"])[1:]


def resource_of(item: Item) -> str:
    """Return the name of a resource, which has no other character than its encoding has, and is short."""
    return unquote(name_of(item))


def item_of(key: Key, document: Document, row: Row) -> Item:
    """Return the item of a document; all but its times and the body is in the row."""
    item = key_of(key) | {
        "version": _number(row.version),
        "at": _number(row.at),
        "body": {"B": row.body},
    }
    if row.seen is not None:
        item["seen"] = _number(row.seen)
    if row.ended:
        item["ended"] = {"M": {name: _number(until) for name, until in row.ended.items()}}
    if document.expires is not None:
        item["expires"] = _number(document.expires)
        item[MAY_BE_DELETED] = _number(document.expires // 1_000_000 + 1)
    if key.kind == PAYLOAD:
        item |= {"listed": {"S": PARKED}, "due": _number(row.at)}
    elif document.due is not None:
        item |= {"listed": {"S": USED}, "due": _number(document.due)}
    return item


def _number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def of_partition(partition: str) -> dict[str, Any]:
    """Return the query for a partition as it is now."""
    return {
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": partition}},
        "ConsistentRead": True,
    }


def of_index(listed: str) -> dict[str, Any]:
    """Return the query for what the index lists; it may be late by a moment."""
    return {
        "IndexName": INDEX,
        "KeyConditionExpression": "listed = :listed",
        "ExpressionAttributeValues": {":listed": {"S": listed}},
    }
