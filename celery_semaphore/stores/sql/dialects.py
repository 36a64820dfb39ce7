"""Say what differs between databases: how to connect, what their errors mean, and parts of the statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...core.durability import Safety
from ...errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

MAKE_TABLE = (
    "run `celery -A <your app> semaphore install`, or `manage.py migrate` with 'celery_semaphore.django' in"
    " INSTALLED_APPS"
)


class NoTable(StoreUnavailable):
    """The database has no table for the documents."""


class Kept(NamedTuple):
    """What a database says of itself: its name and version, and what a crash leaves of a commit."""

    server: str
    safety: Safety
    why: str


class Dialect(Protocol):
    """One kind of database."""

    place: str  # where it is, without a password
    warnings: Sequence[
        str
    ]  # of which processes it can serve, if not all, and what else `semaphore check` tells
    errors: type[Exception]  # the base of all that its driver raises
    one_writer: bool  # whether a transaction that writes keeps all others from writing
    closes_before_fork: (
        bool  # whether a child could not use the database if the parent had a connection open
    )
    alone_after: int  # attempts in vain, after which a call locks before it reads
    clock: str  # an expression for its time in microseconds; empty: that of this host
    begin: str
    after_table: Sequence[str]  # statements

    def statement(self, sql: str, table: str) -> str:
        """Return the statement with the name of the table, and all that is written in another way here."""

    def connect(self, timeout: float) -> Any:
        """Open a connection, on which each statement is a transaction by itself."""

    def prepare(self, connection: Any, *, keeps_message: bool) -> None:
        """Say whether the next transaction must be on the disk when its commit is answered."""

    def kept(self, connection: Any) -> Kept:
        """Ask the database what it is, and how safe a parked message is in it."""

    def translated(self, error: Exception) -> Exception:
        """Return what to raise for an error of the driver."""

    def is_lost(self, error: Exception) -> bool:
        """Return whether the server has closed this connection, and so perhaps the others."""


def filled(sql: str, table: str, words: dict[str, str]) -> str:
    """Return the statement with the name of the table and these words, which may have the name, too."""
    named = {name: each.replace("{table}", table) for name, each in words.items()}
    return sql.format(table=table, **named)
