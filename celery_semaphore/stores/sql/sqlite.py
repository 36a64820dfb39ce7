"""SQLite: a file of one host."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.durability import Safety
from ...errors import StoreFull, StoreUnavailable
from ..documents.documents import Busy
from .dialects import MAKE_TABLE, Kept, NoTable, filled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUSY_PART = (
    0.25  # of the time of a call, for which a statement waits for the lock of another client
)


ONE_HOST = (
    "This store is a file of this host, and serves the processes of this host alone: workers on another one would"
    " have the whole limit again. Use PostgreSQL, MySQL, MariaDB or redis://... for several hosts."
)


class SqliteConnection(sqlite3.Connection):
    """Knows whether the file has a write-ahead log, and whether each commit is flushed."""

    has_log = False
    flushes = True


class Sqlite:
    """A file of this host, to which one client at a time can write."""

    errors: type[Exception] = sqlite3.Error
    one_writer = True
    closes_before_fork = True
    alone_after = 4
    clock = ""
    begin = "BEGIN IMMEDIATE"
    after_table: Sequence[str] = (
        "CREATE INDEX IF NOT EXISTS {table}_due ON {table} (due) WHERE due IS NOT NULL",
        "CREATE INDEX IF NOT EXISTS {table}_expires ON {table} (expires) WHERE expires IS NOT NULL",
    )
    _words: ClassVar[dict[str, str]] = {
        "text": "TEXT",
        "blob": "BLOB",
        "indexes": "",
        "options": "",
        "until_commit": "",  # no other client writes
        "insert_or_ignore": "INSERT OR IGNORE",
        "or_replace": "ON CONFLICT (pk, sk) DO UPDATE SET version = excluded.version, due = excluded.due,"
        " expires = excluded.expires, body = excluded.body",
        "delete_expired": "DELETE FROM {table} WHERE rowid IN"
        " (SELECT rowid FROM {table} WHERE expires <= ? LIMIT ?)",
    }

    def __init__(self, parameters: Mapping[str, Any], warnings: Sequence[str] = ()) -> None:
        self._parameters = parameters
        self.warnings: Sequence[str] = [ONE_HOST, *warnings]
        self.place = str(parameters["database"])

    def statement(self, sql: str, table: str) -> str:
        return filled(sql, table, self._words)

    def connect(self, timeout: float) -> SqliteConnection:
        connection = sqlite3.connect(
            **self._parameters,
            isolation_level=None,
            timeout=timeout * BUSY_PART,
            check_same_thread=False,
            factory=SqliteConnection,
        )
        assert isinstance(connection, SqliteConnection)  # noqa: S101 - for mypy
        ((mode,),) = connection.execute("PRAGMA journal_mode")
        connection.has_log = mode == "wal"
        return connection

    def prepare(self, connection: SqliteConnection, *, keeps_message: bool) -> None:
        """Flush a message to the disk before its broker forgets it, and nothing else if there is a write-ahead log.

        A crash of the host then loses the last commits, but no holder of a permit outlives it: all are on this host.
        """
        if connection.has_log and connection.flushes != keeps_message:
            connection.execute(f"PRAGMA synchronous = {'FULL' if keeps_message else 'NORMAL'}")
            connection.flushes = keeps_message

    def kept(self, connection: Any) -> Kept:
        del connection
        why = "a message is on the disk before its broker forgets it"
        return Kept(f"SQLite {sqlite3.sqlite_version}", Safety.COMMITTED, why)

    def translated(self, error: Exception) -> Exception:
        said, code = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Busy(f"another client has locked {self.place} for too long: {said}")
        if "no such table" in said:
            return NoTable(f"The store {self.place}: {said}; {MAKE_TABLE}", said)
        msg = f"The store {self.place} cannot be used: {said}"
        return StoreFull(msg, said) if code == sqlite3.SQLITE_FULL else StoreUnavailable(msg, said)

    def is_lost(self, error: Exception) -> bool:
        del error
        return False
