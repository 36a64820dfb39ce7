"""Hints say in which resource a wait, a grant or a parked message is: each is a document that a call may distrust.

A call that reads a hint looks into the resource; one that changes a resource writes the hints that follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .documents import GRANT, MESSAGE, PAYLOAD, WAIT, Key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..engine.stored_wait import StoredWait


def wait_key(nonce: str) -> Key:
    """Return the key of the hint where this wait is; all waits of a task are one partition."""
    task, colon, rest = nonce.rpartition(":")
    return Key(WAIT, task, colon + rest)


def payload_key(reference: bytes) -> Key:
    """Return the key of a parked message; the record of its wait has this reference in place of the message."""
    return Key(PAYLOAD, reference.decode("ascii"))


def keys_of(wait: StoredWait, *, granted: bool) -> Iterator[Key]:
    """Yield the keys of what belongs to the record of this wait."""
    yield wait_key(wait.nonce)
    if wait.name:
        yield Key(MESSAGE, wait.name, wait.nonce)
    if granted and wait.session:
        yield Key(GRANT, wait.session, wait.nonce)
    if wait.payload is not None:
        yield payload_key(wait.payload)
