"""Put the tombstones of a resource into its item: one of its own would be one more request of each release.

When an item has several of them, the next release writes these as documents, all in one request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..documents.documents import TOMBSTONE, Changes, Document, Key, kept
from ..engine.codec import encode_until

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 3  # of one item: with these, five holders and short names it is still one write unit


def placed(
    name: str, before: Mapping[str, int], marks: Changes, now: int
) -> tuple[dict[str, int], Changes]:
    """Return the tombstones for the item of this resource, and the marks that are written as documents.

    ``before`` are those in the item as it was read; what has expired of them is left out.
    """
    new = _fit_for_item(name, marks)
    if len(new) > MOST:
        new = {}
    rest = {
        key: mark for key, mark in marks.items() if key.item not in new or not _is_of(key, name)
    }
    # Not of a holder that is marked anew: what lies in the item would hide a later end in a document.
    lasting = {
        holder: until
        for holder, until in before.items()
        if until > now and Key(TOMBSTONE, name, holder) not in marks
    }
    if len(lasting.keys() | new.keys()) <= MOST:
        return lasting | new, rest
    documents = {
        Key(TOMBSTONE, name, holder): Document(encode_until(until), expires=until)
        for holder, until in lasting.items()
    }
    return new, documents | rest


def _fit_for_item(name: str, marks: Changes) -> dict[str, int]:
    """Return the ends of tombstones with a short holder of plain characters, for it becomes an attribute."""
    return {
        key.item: mark.expires
        for key, mark in marks.items()
        if _is_of(key, name) and kept(key.item) == key.item and mark and mark.expires
    }


def _is_of(key: Key, name: str) -> bool:
    return key.kind == TOMBSTONE and key.name == name
