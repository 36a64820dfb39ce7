"""Name and make the table of documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError
from .dialects import Dialect, NoTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .link import Link

VERSION = 1  # of the table
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")  # a part of the names of its indexes, too

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    pk {text} NOT NULL,
    sk {text} NOT NULL,
    version BIGINT NOT NULL,
    due BIGINT,
    expires BIGINT,
    body {blob} NOT NULL,
    PRIMARY KEY (pk, sk){indexes}
){options}"""


@dataclass(frozen=True)
class Table:
    """The table of documents in one database, and the statements about it."""

    dialect: Dialect
    name: str
    _made: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, dialect: Dialect, prefix: str) -> Table:
        """Return the table that is named after the prefix of the settings."""
        name = prefix.replace("-", "_") + "_document"
        if not _NAME.fullmatch(name):
            msg = (
                f"semaphore_prefix={prefix!r} names the table {name!r}: it must be a name of at most 41 letters,"
                " digits, _ and -, that begins with a letter"
            )
            raise ConfigurationError(msg)
        return cls(dialect, name)

    def execute(self, connection: Any, sql: str, values: Sequence[object] = ()) -> Any:
        """Run a statement, in which ``{table}`` and some more stand for what the dialect has there."""
        found = self._made.get(sql)
        if found is None:
            found = self._made[sql] = self.dialect.statement(sql, self.name)
        cursor = connection.cursor()
        cursor.execute(found, values)
        return cursor

    def script(self) -> list[str]:
        """Return the statements that make the table, if it is not there."""
        return [
            self.dialect.statement(each, self.name) for each in (_TABLE, *self.dialect.after_table)
        ]


def install(link: Link, table: Table) -> list[int]:
    """Make the table; return the versions that were missing."""
    if installed(link, table):
        return []
    with link.writing(), link.connection() as connection:
        for sql in table.script():
            connection.cursor().execute(sql)
    return [VERSION]


def installed(link: Link, table: Table) -> int:
    """Return the version of the table that is there; 0 for none."""
    try:
        with link.connection() as connection:
            table.execute(connection, "SELECT 1 FROM {table} LIMIT 1").fetchall()
    except NoTable:
        return 0
    return VERSION
