"""Load sessions, the messages of tasks, brokers and queues when a call first asks for them, and note what changed."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..engine import codec
from ..engine.consumed_queues import BROKER_FOR, Brokers, ConsumedQueues
from .documents import BROKERS, KNOWN, QUEUE, SESSION, Changes, Document, Key, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ..engine.known_messages import KnownMessages, Name
    from .documents import Transaction

V = TypeVar("V")


class DocumentRecords:
    """Keeps the messages of each task in a document."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._changed: dict[Name, KnownMessages | None] = {}

    def get(self, name: Name, now: int) -> KnownMessages | None:
        if name in self._changed:
            found = self._changed[name]
        else:
            body = self._transaction.get(_known(name))
            found = codec.decode_messages(body) if body else None
        return found if found and found.until > now else None

    def put(self, name: Name, record: KnownMessages) -> None:
        self._changed[name] = record

    def delete(self, name: Name) -> None:
        self._changed[name] = None

    def changes(self) -> Changes:
        found = {_known(name): _document(known) for name, known in self._changed.items()}
        get = self._transaction.get
        return {key: each for key, each in found.items() if (each and each.body) != get(key)}


def _known(name: Name) -> Key:
    return Key(KNOWN, *name)


def _document(known: KnownMessages | None) -> Document | None:
    return Document(codec.encode_messages(known), expires=known.until) if known else None


@dataclass
class AskedSession:
    """When a session asked last, and how many grants it can use."""

    asked: int | None
    room: int | None = None


class LoadedSessions:
    """Holds the sessions that the call looked at."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.loaded: dict[str, AskedSession] = {}
        self._before: dict[str, bytes | None] = {}

    def of(self, name: str) -> AskedSession:
        if name not in self.loaded:
            body = self._before[name] = self.transaction.get(Key(SESSION, item=name))
            found = AskedSession(*codec.decode_session(body)) if body else AskedSession(None)
            self.loaded[name] = found
        return self.loaded[name]

    def awake(self, lease: int) -> int:
        """Count the sessions that are awake, with those of this call as they are now."""
        now = self.transaction.now
        found = {
            item: codec.decode_session(body)[0]
            for item, body in self.transaction.all_of(SESSION).items()
        }
        for name, each in self.loaded.items():
            found[kept(name)] = each.asked or 0
        return sum(asked > now - lease for asked in found.values())

    def changes(self, lease: int) -> Changes:
        found = Changes()
        for name, each in self.loaded.items():
            key = Key(SESSION, item=name)
            if each.asked is None:
                if self._before[name] is not None:
                    found[key] = None
                continue
            body = codec.encode_session(each.asked, each.room)
            if body != self._before[name]:
                found[key] = Document(body, expires=each.asked + lease)
        return found


class _Part(MutableMapping[str, V]):
    """One attribute of the loaded sessions, as a mapping; iterating yields those that the call looked at."""

    def __init__(self, sessions: LoadedSessions, length: Callable[[], int]) -> None:
        self._sessions, self._length = sessions, length

    def __iter__(self) -> Iterator[str]:
        loaded = self._sessions.loaded.items()
        return iter([name for name, each in loaded if each.asked is not None])

    def __len__(self) -> int:
        return self._length()


class Asked(_Part[int]):
    """When each session asked last; its length is the number of all that are awake."""

    def __getitem__(self, name: str) -> int:
        if (asked := self._sessions.of(name).asked) is None:
            raise KeyError(name)
        return asked

    def __setitem__(self, name: str, asked: int) -> None:
        self._sessions.of(name).asked = asked

    def __delitem__(self, name: str) -> None:
        self[name]
        self._sessions.of(name).asked = None


class Rooms(_Part["int | None"]):
    """How many grants each session can use."""

    def __getitem__(self, name: str) -> int | None:
        return self._sessions.of(name).room

    def __setitem__(self, name: str, room: int | None) -> None:
        self._sessions.of(name).room = room

    def __delitem__(self, name: str) -> None:
        self._sessions.of(name).room = None


class DocumentQueues(ConsumedQueues):
    """Keeps the workers of each queue in a document, and loads those of the queues that a call names."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self._transaction = transaction
        self._before: dict[str, dict[str, int]] = {}
        self._lasts = 0

    def consume(
        self, now: int, lasts: int, worker: str, queues: Collection[str], left: Collection[str]
    ) -> None:
        self._load({*queues, *left})
        self._lasts = lasts
        super().consume(now, lasts, worker, queues, left)

    def unconsumed(self, now: int, lasts: int, queues: Collection[str]) -> frozenset[str]:
        self._load(queues)
        return super().unconsumed(now, lasts, queues)

    def _load(self, queues: Collection[str]) -> None:
        for queue in queues:
            if queue not in self._before:
                body = self._transaction.get(Key(QUEUE, queue))
                self._before[queue] = codec.decode_times(body) if body else {}
                self.said[queue] = dict(self._before[queue])

    def changes(self) -> Changes:
        found = Changes()
        for queue, before in self._before.items():
            said = self.said.get(queue, {})
            if said != before:
                expires = max(said.values(), default=0) + self._lasts
                found[Key(QUEUE, queue)] = (
                    Document(codec.encode_times(said), expires=expires) if said else None
                )
        return found


class DocumentBrokers(Brokers):
    """Keeps all brokers in one document."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self._transaction = transaction
        self._before: dict[str, int] | None = None

    def all(self, now: int, own: str) -> frozenset[str]:
        if self._before is None:
            body = self._transaction.get(Key(BROKERS))
            self.named = codec.decode_times(body) if body else {}
            self._before = dict(self.named)
        return super().all(now, own)

    def changes(self) -> Changes:
        if self._before is None or self.named == self._before:
            return {}
        expires = max(self.named.values(), default=0) + BROKER_FOR
        return {Key(BROKERS): Document(codec.encode_times(self.named), expires=expires)}
