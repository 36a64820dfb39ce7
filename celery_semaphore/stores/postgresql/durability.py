"""Describe how safe parked messages are in a PostgreSQL server."""

from __future__ import annotations

from ...core.durability import Durability, Safety
from .connection import Connection
from .schema import SchemaName

# Counts by the index of the names, which parked messages have, and no further than it was asked to.
_ASKED = """
SELECT pg_catalog.current_setting('synchronous_commit', true),
    coalesce(pg_catalog.current_setting('fsync', true), ''),
    (SELECT count(*) FROM (SELECT 1 FROM {waiter} AS w WHERE w.name <> '' LIMIT $1) AS parked)
"""


def durability_of(connection: Connection, place: SchemaName, most: int) -> Durability:
    """Return how safe messages are for the role and the database of this connection."""
    ((commit, fsync, parked),) = connection.query(
        _ASKED.format(waiter=place.named("waiter")), [most]
    )
    waits = commit not in {None, "off"}
    return Durability(
        place=f"PostgreSQL at {connection.address}",
        safety=Safety.COMMITTED if waits else Safety.UNTOLD,
        why="it commits them to its disk" if waits else "its synchronous_commit is off",
        parked=int(parked),
        doubt="its fsync is off" if fsync == "off" else "",
    )
