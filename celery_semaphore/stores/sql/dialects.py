"""Say what differs between databases: how to connect, what their errors mean, and parts of the statements."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ...errors import StoreFull, StoreUnavailable
from ..documents.documents import Busy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUSY_PART = (
    0.25  # of the time of a call, for which a statement waits for the lock of another client
)


MAKE_TABLE = (
    "run `celery -A <your app> semaphore install`, or `manage.py migrate` with 'celery_semaphore.django' in"
    " INSTALLED_APPS"
)


class NoTable(StoreUnavailable):
    """The database has no table for the documents."""


class Dialect(Protocol):
    """One kind of database."""

    server: str  # its name and version, for operators
    place: str  # where it is, without a password
    scope: str  # which processes it can serve, if not all; else empty
    durability: str  # what a crash leaves, for operators
    errors: type[Exception]  # the base of all that its driver raises
    one_writer: bool  # whether a transaction that writes keeps all others from writing
    begin: str
    after_table: Sequence[str]  # statements

    def statement(self, sql: str, table: str) -> str:
        """Return the statement with the name of the table, and all that is written in another way here."""

    def connect(self, timeout: float) -> Any:
        """Open a connection, on which each statement is a transaction by itself."""

    def prepare(self, connection: Any, *, keeps_message: bool) -> None:
        """Say whether the next transaction must be on the disk when its commit is answered."""

    def translated(self, error: Exception) -> Exception:
        """Return what to raise for an error of the driver."""


class SqliteConnection(sqlite3.Connection):
    """Knows whether the file has a write-ahead log, and whether each commit is flushed."""

    has_log = False
    flushes = True


class Sqlite:
    """SQLite: a file of this host, to which one client at a time can write."""

    server = f"SQLite {sqlite3.sqlite_version}"
    scope = (
        "This store is a file of this host, and serves the processes of this host alone: workers on another one would"
        " have the whole limit again. Use PostgreSQL, MySQL, MariaDB or redis://... for several hosts."
    )
    durability = "a parked message is on the disk before its broker forgets it"
    errors: type[Exception] = sqlite3.Error
    one_writer = True
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
        "or_ignore": "ON CONFLICT (pk, sk) DO NOTHING",
        "or_replace": "ON CONFLICT (pk, sk) DO UPDATE SET version = excluded.version, due = excluded.due,"
        " expires = excluded.expires, body = excluded.body",
        "delete_expired": "DELETE FROM {table} WHERE rowid IN"
        " (SELECT rowid FROM {table} WHERE expires <= ? LIMIT ?)",
    }

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self.place = str(parameters["database"])

    def statement(self, sql: str, table: str) -> str:
        words = {name: each.replace("{table}", table) for name, each in self._words.items()}
        return sql.format(table=table, **words)

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

    def translated(self, error: Exception) -> Exception:
        said = str(error)
        if "locked" in said:
            return Busy(f"another client has locked {self.place} for too long: {said}")
        if "no such table" in said:
            return NoTable(f"The store {self.place}: {said}; {MAKE_TABLE}", said)
        msg = f"The store {self.place} cannot be used: {said}"
        return StoreFull(msg, said) if "is full" in said else StoreUnavailable(msg, said)
