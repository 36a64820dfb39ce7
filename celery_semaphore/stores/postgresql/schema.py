"""Name, install and check the tables and functions in the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self

from psycopg import errors

from ...errors import ConfigurationError, StoreUnavailable
from .connection import Connection, translated
from .link import Link

VERSION = 1  # of the functions that this version of the library calls
_PARTS = (
    *(
        "epoch",
        "decisions",
        "ticket",
        "released",
        "sessions",
        "resource",
        "kept_room",
        "permits",
        "line",
        "declared",
        "refuse",
        "messages",
    ),
    *("acquire", "acquire_slow_path", "hand_on", "pass_on", "release", "release_slow_path"),
    *("renew", "attach", "outbox", "end", "promote", "processes", "consumed_queues", "reap"),
    *("ask", "name", "view", "waits_of"),
    "totals",
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$-]*")
_WRITTEN = re.compile(r"\bcelery_semaphore\.(\w+)")
_TABLE = re.compile(r"CREATE (?:UNLOGGED )?TABLE celery_semaphore\.(\w+)")
MAX_IDENTIFIER_BYTES = 63  # bytes of a name in the server
INSTALL_TIMEOUT_S = 60.0  # seconds for the whole installation


@dataclass(frozen=True)
class SchemaName:
    """A schema of the database, and the prefix of the library's tables and functions in it."""

    schema: str = "celery_semaphore"
    prefix: str = ""

    def __post_init__(self) -> None:
        for option, name in (("schema", self.schema), ("table_prefix", self.prefix)):
            if (name or option == "schema") and not _NAME.fullmatch(name):
                msg = f"{option}={name!r} must be a name of letters, digits, _, - and $."
                raise ConfigurationError(msg)
        if len(self.schema) > MAX_IDENTIFIER_BYTES or len(self.prefix) > MAX_IDENTIFIER_BYTES - 30:
            msg = f"schema={self.schema!r}, table_prefix={self.prefix!r}: too long for PostgreSQL."
            raise ConfigurationError(msg)

    @classmethod
    def of(cls, prefix: str, transport_options: Mapping[str, Any]) -> Self:
        """Return the schema of the transport option ``schema``, else the one that is named after the prefix."""
        return cls(
            transport_options.get("schema", prefix.replace("-", "_")),
            transport_options.get("table_prefix", ""),
        )

    def named(self, name: str) -> str:
        return f'"{self.schema}"."{self.prefix}{name}"'

    def function(self, operation: str) -> str:
        return self.named(f"v{VERSION}_{operation}")

    def sql(self, version: int) -> str:
        """Return everything that this version adds to the one before, as a script for one transaction."""
        here = files(__package__)
        texts = [(here / f"v{version}" / f"{part}.sql").read_text("utf-8") for part in _PARTS]
        if version == 1:
            texts.insert(0, _tables_sql())
        recorded = f"INSERT INTO celery_semaphore.installed (version) VALUES ({version});\n"  # noqa: S608 - a number
        return _WRITTEN.sub(lambda found: self.named(found[1]), "\n".join([*texts, recorded]))

    def tables(self) -> list[str]:
        """Return the names of all tables, without the schema."""
        return [self.prefix + name for name in _TABLE.findall(_tables_sql())]

    def script(self) -> str:
        """Return the script of all versions, for an administrator to run."""
        steps = [self.sql(version) for version in range(1, VERSION + 1)]
        create = f'CREATE SCHEMA IF NOT EXISTS "{self.schema}";\n'
        return "\n".join(["BEGIN;", create, *steps, "COMMIT;", ""])


def _tables_sql() -> str:
    return (files(__package__) / "schema.sql").read_text("utf-8")


def installed(connection: Connection, place: SchemaName) -> int:
    """Return the newest version that is installed; 0 for none."""
    # Do not use to_regclass(): it may cache that there was none, even after waiting for another installation.
    found = connection.query(
        "SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relname = $2",
        [place.schema, f"{place.prefix}installed"],
    )
    if not found:
        return 0
    ((version,),) = connection.query(
        f"SELECT coalesce(pg_catalog.max(version), 0) FROM {place.named('installed')}"  # noqa: S608 - checked and quoted
    )
    return int(version or 0)


def format_of(connection: Connection, place: SchemaName) -> int | None:
    """Return the format of the tables' rows; None if the tables are empty."""
    found = connection.query(f"SELECT format FROM {place.named('epoch_before')}")  # noqa: S608 - checked and quoted
    return int(found[0][0]) if found else None


def durations_of(connection: Connection, place: SchemaName) -> tuple[int, int] | None:
    """Return the lease and the take-up that the store keeps, in microseconds; None if the tables are empty."""
    found = connection.query(f"SELECT lease, take_up FROM {place.named('epoch_before')}")  # noqa: S608 - checked and quoted
    return (int(found[0][0]), int(found[0][1])) if found else None


def install(link: Link, place: SchemaName) -> list[int]:
    """Bring the schema up to this version; return the versions that were missing.

    Several processes may call this at once: the first one installs, the others wait for it. It checks before it
    creates anything, since a role without the right to create must not fail if there is nothing to do.
    """
    try:
        with translated(), closing(link.connect(timeout=INSTALL_TIMEOUT_S)) as connection:
            if installed(connection, place) >= VERSION:
                return []
            return _install(connection, place)
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, errors.InsufficientPrivilege):
            raise
        msg = (
            f"The role of {link.origin} may not install the schema {place.schema!r}: {error.reason}."
            " Run it as a role that may, or GRANT CREATE."
        )
        raise ConfigurationError(msg) from error


def _install(connection: Connection, place: SchemaName) -> list[int]:
    connection.script("BEGIN ISOLATION LEVEL READ COMMITTED")
    # Names are qualified, or the installing role could run a function of another role that matches better.
    lock = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))"
    connection.query(lock, [place.named("")])
    missing = list(range(installed(connection, place) + 1, VERSION + 1))
    if not connection.query(
        "SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1", [place.schema]
    ):
        connection.script(f'CREATE SCHEMA "{place.schema}"')
    for version in missing:
        connection.script(place.sql(version))
    connection.script("COMMIT")
    return missing
