"""Make a state that loads its parts from documents, and collect what a call changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoding import microseconds
from ..engine.codec import decode_name, decode_store, encode_name, encode_store
from ..engine.decisions import Decisions
from ..engine.epoch import Epoch
from ..engine.state import StoreState
from .documents import GRANT, PAYLOAD, STORE, WAIT, Changes, Document, Key
from .index import DocumentCatalogue
from .loaded_resources import LoadedResources
from .records import Asked, DocumentBrokers, DocumentQueues, DocumentRecords, LoadedSessions, Rooms

if TYPE_CHECKING:
    from collections.abc import Collection

    from .documents import Transaction

GRANT_FOR_S = 86_400  # a grant lasts for seconds; a hint that is lost costs one
LONGEST_LINE = 1000  # waits at one resource: each call reads and writes them all


class LoadedState:
    """The state of one attempt. ``anew`` are resources that are written even if they stay as they are.

    A line finds no place for a new wait if one of the resources that the call begins with is not ``short``.
    """

    def __init__(
        self,
        transaction: Transaction,
        due: Collection[str] = (),
        anew: Collection[str] = (),
        *,
        short: bool = True,
    ) -> None:
        self._transaction, self._anew = transaction, anew
        self.marks = Changes()  # that the call itself brings
        self._before = transaction.get(Key(STORE))
        epoch, decisions = decode_store(self._before) if self._before else (Epoch(), Decisions())
        self._resources = LoadedResources(transaction)
        self._records = DocumentRecords(transaction)
        self._sessions = LoadedSessions(transaction)
        self._queues, self._brokers = DocumentQueues(transaction), DocumentBrokers(transaction)
        self.state = StoreState(
            self._resources,
            decisions,
            self._records,
            Asked(self._sessions, self._awake),
            Rooms(self._sessions, self._awake),
            longest_line=LONGEST_LINE if short else 0,
        )
        self.state.epoch, self.state.consumed_queues = epoch, self._queues
        self.state.brokers = self._brokers
        self.state.catalogue = DocumentCatalogue(transaction, self._resources, due)

    def _awake(self) -> int:
        return self._sessions.awake(self.state.lease)

    @property
    def now(self) -> int:
        return self._transaction.now

    def get(self, key: Key) -> bytes | None:
        return self._transaction.get(key)

    def names_of(self, kind: str) -> list[str]:
        """Return the names that the documents of this kind have for bodies."""
        return [decode_name(body) for body in self._transaction.all_of(kind).values()]

    def store_changed(self) -> Document | None:
        """Return the store's own document if the call changed it."""
        body = encode_store(self.state.epoch, self.state.decisions)
        return None if body == self._before else Document(body)

    def changes(self) -> tuple[Changes, Changes]:
        """Return the documents that must be as they were read, and the marks that follow from them."""
        state, changes, marks = self.state, Changes(), Changes(self.marks)
        if store := self.store_changed():
            changes[Key(STORE)] = store
        changes |= self._sessions.changes(state.lease) | self._queues.changes()
        changes |= self._brokers.changes()
        changes |= self._records.changes()
        for name in self._anew:
            self._resources[name]
        before, after = dict[Key, str](), dict[Key, str]()
        for name, loaded in self._resources.loaded.items():
            marks |= loaded.tombstones()
            if saved := loaded.saved(state.now, state.lease, anew=name in self._anew):
                changes[loaded.key] = saved
                then, now = loaded.hints()
                before |= dict.fromkeys(then, name)
                after |= dict.fromkeys(now, name)
        for key in before | after:
            if before.get(key) != after.get(key):
                self._hint(key, after.get(key), changes, marks)
        return changes, marks

    def _hint(self, key: Key, name: str | None, changes: Changes, marks: Changes) -> None:
        """Write where something is, or delete the hint. A wait has one record only, so its hint is no mark."""
        # A server without a transaction around the call keeps that of a grant which did not come to be.
        expires = self.state.now + microseconds(GRANT_FOR_S) if key.kind == GRANT else None
        hint = None if name is None else Document(encode_name(name), expires=expires)
        if key.kind == WAIT:
            if (hint and hint.body) != self._transaction.get(key):
                changes[key] = hint
        elif hint is None or key.kind != PAYLOAD:  # a message was written when it was parked
            marks[key] = hint
