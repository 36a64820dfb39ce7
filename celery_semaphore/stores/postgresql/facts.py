"""Tell operators what a PostgreSQL server says of itself."""

from __future__ import annotations

from ...core.facts import StoreFacts
from ..encoding import seconds
from .connection import Connection
from .schema import SchemaName, durations_of, format_of, installed

# current_setting() takes settings that a role may not see, or an older server does not have, as unknown.
_SETTINGS = """
SELECT current_setting('server_version'), pg_catalog.pg_is_in_recovery(),
    current_setting('fsync', true), current_setting('synchronous_commit', true),
    coalesce(current_setting('synchronous_standby_names', true), '')
"""
STANDBYS = (
    "Parking, sending what is parked, `semaphore promote` and `purge` wait for a standby of"
    " synchronous_standby_names={names!r}, and keep their locks in the meantime: make sure that two of them are up, or let the"
    " role wait for the server's own disk alone (ALTER ROLE ... SET synchronous_commit = 'local')."
)


def facts_of(connection: Connection, place: SchemaName) -> StoreFacts:
    """Return what the server behind this connection says of itself."""
    ((version, standby, fsync, commit, standbys),) = connection.query(_SETTINGS)
    tables = installed(connection, place)
    in_force = durations_of(connection, place) if tables else None
    waits = bool(standbys) and commit not in {"local", "off"}
    return StoreFacts(
        server=f"PostgreSQL {version}",
        address=f"{connection.address}, schema {place.schema}",
        format=format_of(connection, place) if tables else None,
        lease=None if in_force is None else seconds(in_force[0]),
        tables=tables,
        role="standby" if standby == "t" else "primary",
        durability=f"fsync {fsync}, synchronous_commit {commit},"
        f" synchronous_standby_names {standbys or 'empty'}",
        notes=(STANDBYS.format(names=standbys),) if waits else (),
    )
