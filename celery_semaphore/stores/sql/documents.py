"""Keep documents in a table: read without a lock, and committed by the versions that were read.

Only the transaction that writes has locks. It is short: its statements are known before it begins, and it writes the
rows in the order of their keys.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...errors import StoreUnavailable
from ..documents.documents import PAYLOAD, RESOURCE, STORE, Key, kept
from ..encoding import microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..documents.documents import Changes, Document
    from .link import Link
    from .schema import Table

TOGETHER = 100  # documents in one statement
SWEPT = 1000  # expired documents that one sweep deletes
Row = tuple[Any, ...]


class SqlDocuments:
    """The documents of one table."""

    largest_payload = largest_line = None

    def __init__(self, link: Link, table: Table, now: Callable[[], float] | None) -> None:
        self.link, self.table = link, table
        self._now = now
        self.alone_after = link.dialect.alone_after

    @property
    def asks_for_time(self) -> bool:
        """Whether each attempt begins with the clock of the server."""
        return self._now is None and bool(self.link.dialect.clock)

    def now(self) -> int:
        """Return the time of the store where this process knows it."""
        return microseconds((self._now or time.time)())

    def begin(
        self,
        keys: Collection[Key],
        *,
        alone: bool = False,
        parks: bool = False,
        expected: Collection[Key] = (),
    ) -> SqlTransaction:
        """Begin an attempt; one that is alone locks the database if that has one writer, or else these resources."""
        del expected  # the database is near
        transaction = SqlTransaction(self)
        try:
            if alone:
                transaction.lock([key for key in keys if key.kind == RESOURCE], parks=parks)
            transaction.read(keys)
        except BaseException:
            transaction.end()
            raise
        return transaction

    def rows(self, sql: str, *values: object) -> list[Row]:
        with self.link.connection() as connection:
            found: list[Row] = self.table.execute(connection, sql, values).fetchall()
            return found

    def sweep(self, now: int, limit: int) -> list[str]:
        if self.rows("SELECT 1 FROM {table} WHERE expires <= ? LIMIT 1", now):
            with self.link.writing(), self.link.connection() as connection:
                self.table.execute(connection, "{delete_expired}", (now, SWEPT))
        # A time that is ahead is of before the clock stepped back.
        due = self.rows("SELECT pk FROM {table} WHERE due > ? LIMIT ?", now, limit)
        wanted = "SELECT pk FROM {table} WHERE due <= ? ORDER BY due LIMIT ?"
        due += self.rows(wanted, now, limit - len(due))
        return [_resource(partition) for (partition,) in due]


class SqlTransaction:
    """One attempt: what it has read, with the versions."""

    def __init__(self, documents: SqlDocuments) -> None:
        self.now = 0
        self._documents = documents
        self._read: dict[Key, tuple[int, bytes] | None] = {}
        self._locked: Any = None  # the connection of one that is alone
        self._lock = ExitStack()

    def lock(self, resources: Sequence[Key], *, parks: bool) -> None:
        """Keep all others from writing, or from writing these resources, as far as they are there.

        A resource that is read later is locked then.
        """
        documents, dialect = self._documents, self._documents.link.dialect
        self._lock.enter_context(documents.link.writing())
        connection = self._lock.enter_context(documents.link.connection())
        with documents.link.translated():
            dialect.prepare(connection, keeps_message=parks)  # it cannot be changed later
            self._locked = (
                connection  # before it begins: after an interruption ``end`` rolls it back
            )
            documents.table.execute(connection, dialect.begin)
        if resources and not dialect.one_writer:
            wanted, values = _any_of(resources)
            sql = f"SELECT pk FROM {{table}} WHERE {wanted} ORDER BY pk, sk FOR UPDATE"  # noqa: S608 - as below
            self._rows(sql, *values)

    def end(self) -> None:
        """Give the connection back; one that cannot be rolled back is closed, and whatever was raised before stays."""
        connection, self._locked = self._locked, None
        with suppress(StoreUnavailable), self._lock:
            if connection is not None:
                connection.rollback()

    def _rows(self, sql: str, *values: object) -> list[Row]:
        if self._locked is None:
            return self._documents.rows(sql, *values)
        with self._documents.link.translated():
            found: list[Row] = self._documents.table.execute(self._locked, sql, values).fetchall()
        return found

    def read(self, keys: Collection[Key]) -> None:
        """Read these documents, and the time with the first of them."""
        wanted = [*dict.fromkeys(keys)]
        for start in range(0, len(wanted), TOGETHER) or (0,):
            self._read_together(wanted[start : start + TOGETHER], with_time=start == 0)

    def _read_together(
        self, keys: Sequence[Key], *, with_time: bool = False, locks: bool = False
    ) -> None:
        wanted, values = _any_of(keys)
        sql = f"SELECT pk, sk, version, body FROM {{table}} WHERE {wanted}"  # noqa: S608 - no value is in it
        asks = with_time and self._documents.asks_for_time
        if asks:
            clock = self._documents.link.dialect.clock
            sql = f"SELECT NULL, NULL, {clock}, NULL UNION ALL {sql}"
        if locks:
            sql += " FOR UPDATE"
        rows = self._rows(sql, *values) if keys or asks else []
        found = {(partition, item): (version, body) for partition, item, version, body in rows}
        if with_time:
            self.now = found.pop((None, None))[0] if asks else self._documents.now()
        for key in keys:
            self._read[key] = found.get(_stored(key))

    def expect(self, keys: Collection[Key]) -> None:
        """Do nothing: the database is near."""

    def get(self, key: Key) -> bytes | None:
        if key not in self._read:
            one_writer = self._documents.link.dialect.one_writer
            locks = self._locked is not None and key.kind == RESOURCE and not one_writer
            self._read_together([key], locks=locks)
        found = self._read[key]
        return found and found[1]

    def all_of(self, kind: str, name: str = "") -> dict[str, bytes]:
        sql = (
            "SELECT sk, body FROM {table} WHERE pk = ? AND (expires IS NULL OR expires > ?)"
            " ORDER BY sk"
        )
        return dict(self._rows(sql, Key(kind, name).partition, self.now))

    def in_use(self) -> list[str]:
        sql = "SELECT pk FROM {table} WHERE due IS NOT NULL ORDER BY pk"
        return [_resource(partition) for (partition,) in self._rows(sql)]

    def keys_of(self, semaphore: str) -> list[str]:
        partition = Key(RESOURCE, semaphore).partition
        sql = "SELECT pk FROM {table} WHERE pk = ? OR (pk >= ? AND pk < ?) ORDER BY pk"
        # "0" is the character after "/".
        found = self._rows(sql, partition, f"{partition}/", f"{partition}0")
        return [_resource(name) for (name,) in found]

    def commit(self, changes: Changes, marks: Changes) -> bool:
        statements = [self._swap(key, changes[key]) for key in sorted(changes)]
        is_new = any(key.kind == RESOURCE and self._read[key] is None for key in changes)
        link = self._documents.link
        if self._locked is not None:
            with link.translated():
                return self._commit(self._locked, statements, marks, of_new=is_new)
        parked = any(key.kind == PAYLOAD and marks[key] for key in marks)
        with link.writing(), link.connection() as connection:
            link.dialect.prepare(connection, keeps_message=parked)
            self._documents.table.execute(connection, link.dialect.begin)
            return self._commit(connection, statements, marks, of_new=is_new)

    def _commit(
        self,
        connection: Any,
        statements: Sequence[tuple[str, Row]],
        marks: Changes,
        *,
        of_new: bool,
    ) -> bool:
        """Run the statements; those ``of_new`` resources also need the store's document as it was read."""
        execute = self._documents.table.execute
        if of_new and not self._is_store_as_read(connection):
            connection.rollback()
            return False
        for sql, values in statements:
            if execute(connection, sql, values).rowcount != 1:
                connection.rollback()
                return False
        for key in sorted(marks):
            execute(connection, *_mark(key, marks[key]))
        connection.commit()
        return True

    def _is_store_as_read(self, connection: Any) -> bool:
        """Compare the store's document, and keep it as it is until the end of the transaction.

        What an operator decides is written to each resource anew, but not to one that has no document yet.
        """
        before = self._read.get(Key(STORE))
        found = self._documents.table.execute(connection, READ_STORE, _stored(Key(STORE)))
        return [version for (version,) in found.fetchall()] == ([before[0]] if before else [])

    def _swap(self, key: Key, document: Document | None) -> tuple[str, Row]:
        """Return the statement that changes one row if the document is as it was read."""
        if key not in self._read:
            self._read_together([key])
        before = self._read[key]
        version = before[0] if before else 0
        if document is None:
            return DELETE, (*_stored(key), version)
        if before is None:
            return INSERT_NEW, (*_stored(key), _version(0), *_columns(document))
        return UPDATE, (_version(version), *_columns(document), *_stored(key), version)


READ_STORE = "SELECT version FROM {table} WHERE pk = ? AND sk = ?{until_commit}"
DELETE = "DELETE FROM {table} WHERE pk = ? AND sk = ? AND version = ?"
_VALUES = "INTO {table} (pk, sk, version, due, expires, body) VALUES (?, ?, ?, ?, ?, ?) "
INSERT = "INSERT " + _VALUES
INSERT_NEW = "{insert_or_ignore} " + _VALUES
UPDATE = (
    "UPDATE {table} SET version = ?, due = ?, expires = ?, body = ?"
    " WHERE pk = ? AND sk = ? AND version = ?"
)


def _any_of(keys: Sequence[Key]) -> tuple[str, list[str]]:
    """Return the condition that a row is one of these, and its values."""
    wanted = " OR ".join(["(pk = ? AND sk = ?)"] * len(keys)) or "pk IS NULL"
    return wanted, [part for key in keys for part in _stored(key)]


def _mark(key: Key, document: Document | None) -> tuple[str, Row]:
    if document is None:
        return "DELETE FROM {table} WHERE pk = ? AND sk = ?", _stored(key)
    return INSERT + "{or_replace}", (*_stored(key), _version(0), *_columns(document))


def _columns(document: Document) -> Row:
    return document.due, document.expires, document.body


def _version(before: int) -> int:
    """Return a new version. A document that was deleted and is made anew must have none of its old ones."""
    return max(time.time_ns() // 1000, before + 1)


def _stored(key: Key) -> tuple[str, str]:
    return key.partition, kept(key.item)


def _resource(partition: str) -> str:
    """Return the name of a resource, which has at most 260 characters and no other character than its encoding has."""
    return unquote(partition.partition("#")[2])
