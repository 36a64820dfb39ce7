"""Encode the state of a store as documents, and decode it: JSON with short keys, and zlib where it is long.

Each document has the number of its format. A resource is one line for itself and one for each wait, since waits are
immutable: the text of a wait that did not change is kept, and is not made again.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from ...core.claim import Claim
from ...core.formats import FORMAT, check_format
from ...core.wait import Kind
from ..encoding import ResourceClaim, resource_claims, ticket_of
from .decisions import Decisions, Paused
from .declared import Declared
from .epoch import Epoch
from .known_messages import KnownMessages
from .resource import Entry, KeptRoom, Resource
from .stored_wait import StoredWait

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_PLAIN = 1024  # bytes of a document that is not compressed
COMPRESSION = 1  # zlib's level: the higher ones take more time than they save space
KNOWN_WAITS = 4096  # that a process keeps decoded

# The short names of an epoch's attributes.
_EPOCH = {
    "l": "lease",
    "t": "take_up",
    "s": "slow",
    "S": "slow_until",
    "i": "id",
    "r": "restarted",
    "c": "created",
    "g": "grace_until",
    "a": "called",
    "q": "silent_since",
    "w": "awaited_until",
}
_VERSION = "v"


@dataclass
class WaitTexts:
    """Holds the texts of the waits that were decoded; the same objects need not be encoded again."""

    _of: dict[int, tuple[StoredWait, str]] = field(
        default_factory=dict
    )  # by id, of a living object

    def add(self, wait: StoredWait, text: str) -> None:
        self._of[id(wait)] = wait, text

    def of(self, wait: StoredWait) -> str:
        found = self._of.get(id(wait))
        return found[1] if found else encode_wait(wait)


# -- resources


def encode_resource(at: Resource, texts: WaitTexts) -> bytes:
    """Return a resource without its name, its tombstones, and the time of the last call."""
    own: dict[str, Any] = {
        "h": {name: _entry(each) for name, each in at.holders.items()},
        "g": {nonce: _entry(each) for nonce, each in at.grants.items()},
        "o": at.outbox,
        "k": {nonce: [each.ticket.text, *each[1:]] for nonce, each in at.kept.items()},
        "d": at.declared,
        "t": at.token,
        "n": at.mean_samples,
        "r": at.reaped_at,
    }
    head = {_VERSION: FORMAT, **_told(own), **_known(m=at.mean, l=at.latest)}
    lines = [_json(head), *map(texts.of, at.tickets.values())]
    return _packed("\n".join(lines))


def decode_resource(name: str, body: bytes) -> tuple[Resource, WaitTexts]:
    head, *lines = _unpacked(body).split("\n")
    own, texts = _body(head), WaitTexts()
    at = Resource(name)
    at.holders = {holder: _entry_of(each) for holder, each in own.get("h", {}).items()}
    at.grants = {nonce: _entry_of(each) for nonce, each in own.get("g", {}).items()}
    at.outbox = own.get("o", {})
    at.kept = {
        nonce: KeptRoom(ticket_of(text), weight, ends)
        for nonce, (text, weight, ends) in own.get("k", {}).items()
    }
    at.declared = Declared(*own["d"]) if "d" in own else None
    at.mean, at.latest = own.get("m"), own.get("l")
    at.token, at.mean_samples, at.reaped_at = own.get("t", 0), own.get("n", 0), own.get("r", 0)
    for line in lines:
        wait = decode_wait(line)
        texts.add(wait, line)
        at.tickets[wait.nonce] = wait
    return at, texts


def _entry(entry: Entry) -> list[Any]:
    ticket = entry.ticket and entry.ticket.text
    parts = [entry.token, entry.since, entry.weight, entry.ends, entry.epoch, ticket]
    return [*parts, 1] if entry.restored else parts if ticket else parts[:-1]


def _entry_of(parts: list[Any]) -> Entry:
    token, since, weight, ends, epoch, *more = parts
    ticket = ticket_of(more[0]) if more and more[0] else None
    return Entry(token, since, weight, ends, epoch, ticket, restored=len(more) > 1)


# -- waits


def encode_wait(wait: StoredWait) -> str:
    derived = tuple(resource_claims(wait.claims))
    claims = [[each.resource, each.limit, each.weight] for each in wait.resource_claims]
    parts: dict[str, Any] = {
        "t": wait.ticket.text,
        "k": wait.kind.value,
        "c": [[c.semaphore, c.key, c.limit, c.weight, c.resource] for c in wait.claims],
        "r": None if derived == wait.resource_claims else claims,
        "d": wait.due,
        "n": wait.name,
        "b": wait.broker,
        "s": wait.session,
        "E": wait.epoch,
        "x": int(wait.ended),
        "a": int(wait.away),
        "z": int(wait.aside),
        "w": wait.keeps,
    }
    payload = None if wait.payload is None else b64encode(wait.payload).decode()
    ends = None if wait.ends == inf else wait.ends
    return _json(_told(parts) | _known(p=payload, e=ends))


@lru_cache(maxsize=KNOWN_WAITS)
def decode_wait(text: str) -> StoredWait:
    parts = json.loads(text)
    claims = tuple(Claim(*each) for each in parts["c"])
    derived = resource_claims(claims) if "r" not in parts else ()
    return StoredWait(
        ticket_of(parts["t"]),
        Kind(parts["k"]),
        claims,
        tuple(derived or (ResourceClaim(*each) for each in parts["r"])),
        parts.get("d", 0),
        b64decode(parts["p"]) if "p" in parts else None,
        parts.get("n", ""),
        parts.get("b", ""),
        parts.get("e", inf),
        bool(parts.get("x")),
        parts.get("s", ""),
        parts.get("E", 0),
        bool(parts.get("a")),
        bool(parts.get("z")),
        parts.get("w", 0),
    )


# -- the store's own document


def encode_store(epoch: Epoch, decisions: Decisions) -> bytes:
    """Return the epoch and what operators decided; the format of this document is that of the store."""
    own: dict[str, Any] = {
        "e": _told({short: getattr(epoch, name) for short, name in _EPOCH.items()}),
        "l": decisions.limits,
        "p": decisions.pauses,
    }
    return _packed(_json({_VERSION: epoch.format, **_told(own)}))


def decode_store(body: bytes) -> tuple[Epoch, Decisions]:
    """Return the epoch and the decisions; of a newer format only its number is known."""
    own = json.loads(_unpacked(body))
    if own[_VERSION] > FORMAT:
        return Epoch(format=own[_VERSION]), Decisions()
    named = {_EPOCH[short]: each for short, each in own.get("e", {}).items()}
    limits = {name: (limit, since) for name, (limit, since) in own.get("l", {}).items()}
    pauses = {name: Paused(*each) for name, each in own.get("p", {}).items()}
    return Epoch(**named, format=own[_VERSION]), Decisions(limits, pauses)


# -- all others


def encode_messages(known: KnownMessages) -> bytes:
    ticket = known.ticket and known.ticket.text
    own = {"t": ticket, "u": known.until, "h": known.holder, "r": int(known.ran)}
    return _packed(_json({_VERSION: FORMAT, **_told(own), **_known(a=known.admitted)}))


def decode_messages(body: bytes) -> KnownMessages:
    own = _body(_unpacked(body))
    ticket = ticket_of(own["t"]) if "t" in own else None
    return KnownMessages(
        ticket, own.get("u", 0), own.get("a"), own.get("h", ""), bool(own.get("r"))
    )


def encode_session(asked: int, room: int | None) -> bytes:
    return _packed(_json({_VERSION: FORMAT, "a": asked, "r": room}))


def decode_session(body: bytes) -> tuple[int, int | None]:
    own = _body(_unpacked(body))
    return own["a"], own["r"]


def encode_times(times: Mapping[str, int]) -> bytes:
    """Return when each of these names was said last."""
    return _packed(_json({_VERSION: FORMAT, "n": times}))


def decode_times(body: bytes) -> dict[str, int]:
    found: dict[str, int] = _body(_unpacked(body))["n"]
    return found


def encode_until(until: int) -> bytes:
    return _packed(_json({_VERSION: FORMAT, "u": until}))


def decode_until(body: bytes) -> int:
    return int(_body(_unpacked(body))["u"])


def encode_name(name: str) -> bytes:
    """Return the name of a resource, or of a process."""
    return _packed(_json({_VERSION: FORMAT, "n": name}))


def decode_name(body: bytes) -> str:
    return str(_body(_unpacked(body))["n"])


def encode_payload(payload: bytes) -> bytes:
    return _packed(_json({_VERSION: FORMAT, "p": b64encode(payload).decode()}))


def decode_payload(body: bytes) -> bytes:
    return b64decode(_body(_unpacked(body))["p"])


# -- JSON and zlib


def _told(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is the default: zero, empty, or None."""
    return {name: each for name, each in parts.items() if each}


def _known(**parts: Any) -> dict[str, Any]:
    """Leave out None alone: zero and an empty text say something."""
    return {name: each for name, each in parts.items() if each is not None}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(
        value, separators=(",", ":")
    )  # ASCII: no name is a line feed, or half a character


def _body(text: str) -> dict[str, Any]:
    own: dict[str, Any] = json.loads(text)
    check_format("a document of the store", own[_VERSION])
    return own


def _packed(text: str) -> bytes:
    plain = text.encode("ascii")
    return plain if len(plain) <= LONGEST_PLAIN else zlib.compress(plain, COMPRESSION)


def _unpacked(body: bytes) -> str:
    plain = body if body.startswith(b"{") else zlib.decompress(body)
    return plain.decode("ascii")
