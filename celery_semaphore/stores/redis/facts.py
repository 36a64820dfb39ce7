"""Tell operators what a server of the Redis family says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.facts import StoreFacts
from .connection import plain
from .health import appends, config, info_of, policy_of

NONE = "none: neither an AOF nor save points"
FORGETS = "A restart of this server forgets the limits and pauses that operators set: with appendonly yes it keeps them."


def format_of(connection: Any, epoch: str) -> int | None:
    """Return the format of the records; None if there are none. ``epoch`` is the key of the epoch's record."""
    found = plain(connection, ("HGET", epoch, "format"))
    return int(found) if found and found.isdigit() else None


def facts_of(connection: Any, epoch: str) -> StoreFacts:
    """Return what the server behind this connection says of itself."""
    info = info_of(connection)
    durability = _durability(connection, info)
    return StoreFacts(
        server=_server(info),
        address=_address(connection),
        format=format_of(connection, epoch),
        role=_role(info),
        durability=durability,
        eviction=policy_of(connection, info),
        notes=(FORGETS,) if durability == NONE else (),
    )


def with_place(facts: StoreFacts, place: str) -> StoreFacts:
    """Return these facts with the place that the server has among others, if it is known to have one."""
    if not place:
        return facts
    return replace(facts, role=f"{facts.role}; {place}" if facts.role else place)


def _server(info: dict[str, str]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}" if "redis_version" in info else "Redis, or one like it"


def _address(connection: Any) -> str:
    place = getattr(connection, "path", None) or f"{connection.host}:{connection.port}"
    user = f" as {connection.username}" if getattr(connection, "username", None) else ""
    return f"{place}/{connection.db}{user}"


def _role(info: dict[str, str]) -> str | None:
    if info.get("role") == "slave":
        return f"replica of {info.get('master_host')}:{info.get('master_port')}"
    if info.get("role") != "master":
        return None
    return f"primary, {info.get('connected_slaves', '0')} replica(s)"


def _durability(connection: Any, info: dict[str, str]) -> str | None:
    """Return what a restart leaves; None if the server does not tell its save points, and has no AOF."""
    if appends(connection, info):
        return f"AOF, appendfsync {config(connection, 'appendfsync') or 'not told'}"
    saves = config(connection, "save")
    if saves is None:
        return None
    return f"no AOF, save points {saves}" if saves else NONE
