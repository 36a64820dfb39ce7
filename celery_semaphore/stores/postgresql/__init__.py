"""Keep permits in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .schema import SchemaName
from .store import PostgresStore
from .url import parameters_from_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PostgresStore", "from_url"]


def from_url(
    url: str,
    *,
    prefix: str,
    lease: float,
    take_up: float | None,
    timeout: float,
    transport_options: Mapping[str, Any],
    ssl: Mapping[str, Any] | bool | None,
) -> PostgresStore:
    """Make a store from a URL; see ``store_from_url``.

    The transport option ``schema`` names the schema; by default it is named after the prefix.
    """
    parameters = parameters_from_url(url, timeout=timeout, ssl=ssl)
    place = SchemaName(
        transport_options.get("schema", prefix.replace("-", "_")),
        transport_options.get("table_prefix", ""),
    )
    return PostgresStore(parameters, place=place, lease=lease, take_up=take_up, timeout=timeout)
