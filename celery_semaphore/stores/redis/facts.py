"""Tell operators what a server of the Redis family says of itself."""

from __future__ import annotations

from typing import Any

from ...core.facts import StoreFacts
from ..encoding import seconds
from .connection import is_node, plain
from .health import appends, config, info_of, policy_of

FORGETS = (
    "A restart of this server forgets the limits and pauses that operators set, because it has neither an AOF nor save"
    " points: set appendonly yes."
)
MAY_FORGET = (
    "The server does not say whether it has an AOF or save points: without them a restart forgets the limits and pauses"
    " that operators set, so make sure that it has appendonly yes."
)


def format_of(connection: Any, epoch: str) -> int | None:
    """Return the format of the records; None if there are none. ``epoch`` is the key of the epoch's record."""
    found = plain(connection, ("HGET", epoch, "format"))
    return int(found) if found and found.isdigit() else None


def durations_of(connection: Any, epoch: str) -> tuple[int, int] | None:
    """Return the lease and the take-up of the epoch's record, in microseconds; None if there are none."""
    lease, take_up = plain(connection, ("HMGET", epoch, "lease", "take_up"))
    return (int(lease), int(take_up)) if lease and take_up else None


def facts_of(connection: Any, epoch: str) -> StoreFacts:
    """Return what the server behind this connection says of itself."""
    info = info_of(connection)
    durability, notes = _durability(connection, info)
    in_force = durations_of(connection, epoch)
    return StoreFacts(
        server=_server(info),
        address=_address(connection),
        format=format_of(connection, epoch),
        lease=None if in_force is None else seconds(in_force[0]),
        role=_role(info),
        durability=durability,
        eviction=policy_of(connection, info),
        notes=notes,
    )


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
    place = "primary of a part of a Redis Cluster" if is_node(info) else "primary"
    return f"{place}, {info.get('connected_slaves', '0')} replica(s)"


def _durability(connection: Any, info: dict[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return what a restart leaves, None if the server does not say that; and what to do about it."""
    if appends(connection, info):
        return f"AOF, appendfsync {config(connection, 'appendfsync') or 'not told'}", ()
    saves = config(connection, "save")
    if saves is None:
        return None, (MAY_FORGET,)
    if not saves:
        return "none: neither an AOF nor save points", (FORGETS,)
    return f"no AOF, save points {saves}", ()
