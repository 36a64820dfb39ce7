"""Define what a server of documents must offer: consistent reads, and a commit that fails if a document was changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import quote

from ...core.names import PLAIN
from ...errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST = 600  # bytes of a name in a key; a longer one ends with a digest


class Key(NamedTuple):
    """The key of a document: the kind and the name are its partition, in which the item is unique."""

    kind: str
    name: str = ""
    item: str = ""

    @property
    def partition(self) -> str:
        """The partition as it is kept."""
        return f"{self.kind}#{kept(self.name)}"


@lru_cache(maxsize=4096)
def kept(name: str) -> str:
    """Return a name in printable ASCII, shortened if it is long: bodies have whole names."""
    text = quote(name.encode("utf-8", "surrogatepass"), safe=PLAIN)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 65]}~{sha256(text.encode()).hexdigest()}"


STORE = "store"  # the epoch, and what operators decided
RESOURCE = "r"
TOMBSTONE = "t"  # of a resource; the item is the holder
WAIT = "w"  # hint: where the record of a wait is; of a task, the item is the rest of the nonce
GRANT = "g"  # hint: where a grant is; of a session, the item is the nonce
MESSAGE = "n"  # hint: where a parked message is; of its name, the item is the nonce
PAYLOAD = "p"  # the parked message itself
KNOWN = "m"  # the messages of a task, by the first resource of its claims
SESSION = "s"
QUEUE = "q"
BROKERS = "b"
PROCESS = "f"


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document. Times are in microseconds."""

    body: bytes
    due: int | None = None  # of a resource in use: when it was reaped last
    expires: int | None = None  # from then on it may be deleted


Changes = dict[Key, Document | None]  # None: it is deleted


class Busy(StoreUnavailable):
    """The server cannot do this now, and the call is to be made again; the text is the reason."""


class Transaction(Protocol):
    """One attempt of a call: what it reads, and its commit."""

    now: int  # the server's clock, in microseconds

    def expect(self, keys: Collection[Key]) -> None:
        """Note what the call will ask for next: a server far away may be asked for all of it at once."""
        ...

    def get(self, key: Key) -> bytes | None:
        """Return the body of a document as it is now, or as this attempt read it before; None if there is none."""
        ...

    def all_of(self, kind: str, name: str = "") -> dict[str, bytes]:
        """Return the bodies of all documents in a partition that have not expired, by their items as ``kept``."""
        ...

    def in_use(self) -> list[str]:
        """Return the names of all resources in use, in order."""
        ...

    def keys_of(self, semaphore: str) -> list[str]:
        """Return the names of this resource and of all keys of the semaphore, as far as there are documents."""
        ...

    def end(self) -> None:
        """End the attempt, with or without a commit."""
        ...

    def commit(self, changes: Changes, marks: Changes) -> bool:
        """Write everything, or nothing; return False if one of ``changes`` differs from what this attempt read.

        ``marks`` are written whatever is there. A server that cannot write all at once writes those that are not
        deleted before the changes, and deletes the others after them: a mark too many is harmless.
        """
        ...


class Documents(Protocol):
    """A server that keeps documents."""

    alone_after: int  # attempts of one call: at a hot document some callers would lose for seconds

    @property
    def largest_payload(self) -> int | None:
        """Bytes of a parked message; None without a bound."""

    @property
    def largest_line(self) -> int | None:
        """Bytes of a resource: in a larger one a new wait finds no place."""

    def begin(
        self,
        keys: Collection[Key],
        *,
        alone: bool = False,
        parks: bool = False,
        expected: Collection[Key] = (),
    ) -> Transaction:
        """Read these documents, at one instant and in one round trip, as new as they are.

        The call will ask for what is ``expected`` after them, as in ``Transaction.expect``.

        If it is to be ``alone``, no other client writes at least the resources among these until it ends, where the
        server can do that: the call has lost against others several times. One that ``parks`` keeps a message.
        """
        ...

    def sweep(self, now: int, limit: int) -> list[str]:
        """Delete what has expired; return at most so many resources in use, those reaped longest ago first."""
        ...
