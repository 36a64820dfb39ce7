"""Check, when a worker starts, that this server can keep permits."""

from __future__ import annotations

import re

from psycopg import errors

from ...core.formats import FORMAT, format_warnings
from ...errors import ConfigurationError, StoreUnavailable
from . import tls
from .connection import INSTALL, Connection
from .link import Link
from .rights import lacks, missing_rights, shortened
from .schema import VERSION, SchemaName, format_of, installed

UPGRADE = "celery -A <your app> semaphore upgrade"
OLDEST = 140000  # server_version of PostgreSQL 14


# Errors while connecting: libpq passes on their texts but not their codes.
_DENIED = re.compile(r"password|authentication|pg_hba|role \S+ does not exist")
_NO_DATABASE = re.compile(r"database \S+ does not exist")
_READ_ONLY = re.compile(r"read-only")


def examine(link: Link, place: SchemaName, *, parks: bool = False) -> list[str]:
    """Return the warnings to log; raise ``ConfigurationError`` for a server that must not be used."""
    try:
        return link.ask(lambda connection: _examined(connection, place, parks=parks))
    except StoreUnavailable as error:
        if (msg := _mistake(error, place, link.origin)) is None:
            raise
        raise ConfigurationError(msg) from error


def _mistake(error: StoreUnavailable, place: SchemaName, origin: str) -> str | None:
    """Explain an error that is an outage while a worker runs, but a configuration mistake at its start."""
    if isinstance(error.__cause__, errors.InsufficientPrivilege):
        return lacks(place, error.reason)
    if (wrong := tls.mistake(error.reason, origin)) is not None:
        return wrong
    if _NO_DATABASE.search(error.reason):
        return f"{origin} names a database that the server does not have: {error.reason}"
    if _DENIED.search(error.reason):
        return f"The store refused the user name or password in {origin}: {error.reason}"
    if _READ_ONLY.search(error.reason):
        return (
            f"The store is read-only: {error.reason}. Name the primary in {origin}, or all hosts"
            " of the cluster (postgresql://one,two/...)."
        )
    return None


def _examined(connection: Connection, place: SchemaName, *, parks: bool) -> list[str]:
    if connection.server_version < OLDEST:
        msg = f"The store runs PostgreSQL {connection.server_version // 10000}; it must be 14 or newer."
        raise ConfigurationError(msg)
    found = installed(connection, place)
    if not found:
        msg = f"The store has no tables in the schema {place.schema!r}: run `{INSTALL}`."
        raise ConfigurationError(msg)
    if found < VERSION:
        msg = (
            f"The store's tables are of version {found}, and {VERSION} is needed: run `{UPGRADE}`."
        )
        raise ConfigurationError(msg)
    if missing := missing_rights(connection, place):
        raise ConfigurationError(lacks(place, shortened(missing)))
    found_format = format_of(connection, place)
    warnings = format_warnings(FORMAT if found_format is None else found_format)
    if parks and connection.query("SHOW fsync") == [["off"]]:
        lost = "Parked tasks lie in this server, and its fsync is off: a crash of its machine loses them."
        return [*warnings, lost]
    return warnings
