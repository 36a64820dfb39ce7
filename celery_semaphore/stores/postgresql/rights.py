"""Find the rights that a role lacks, and say how to give them."""

from __future__ import annotations

from .connection import Connection
from .schema import VERSION, SchemaName

# The role's missing rights to tables and functions: what it may not do, and to what. A newer installation may have more
# tables; a table of another application in the same schema is none of ours.
_MISSING = """
SELECT want.right_to || ' on ' || c.relname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN pg_catalog.unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS want (right_to)
WHERE n.nspname = $1 AND c.relname = ANY ($2::text[])
AND (want.right_to = 'SELECT' OR c.relname <> $3)
AND NOT pg_catalog.has_table_privilege(c.oid, want.right_to)
UNION ALL
SELECT 'EXECUTE on ' || p.proname
FROM pg_catalog.pg_proc AS p
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND pg_catalog.starts_with(p.proname::text, $4)
AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
ORDER BY 1
"""
SHOWN = 6  # missing rights in one message


def missing_rights(connection: Connection, place: SchemaName) -> list[str]:
    """Return the rights that the role of this connection lacks, such as ``INSERT on permit``."""
    tables, functions = place.tables(), f"{place.prefix}v{VERSION}_"
    rows = connection.query(_MISSING, [place.schema, tables, f"{place.prefix}installed", functions])
    return [right for (right,) in rows]


def lacks(place: SchemaName, reason: str) -> str:
    """Say that the role lacks a right, and which rights suffice."""
    return f"The store's role lacks a right: {reason}; {_grants(place)}"


def shortened(rights: list[str]) -> str:
    """Name the first of these rights, and the number of the others."""
    more = f" and {len(rights) - SHOWN} more" if len(rights) > SHOWN else ""
    return ", ".join(rights[:SHOWN]) + more


def _grants(place: SchemaName) -> str:
    return (
        f'GRANT USAGE ON SCHEMA "{place.schema}", SELECT, INSERT, UPDATE, DELETE ON its tables, and EXECUTE ON its'
        " functions, which is granted unless it was revoked."
    )
