"""Describe how safe parked messages are in a server of the Redis family."""

from __future__ import annotations

from typing import Any

import redis

from ...core.durability import Durability, Safety, server_of
from .connection import plain
from .health import evicts, info_of, policy_of

APPENDS = "it writes an AOF"


def durability_of(connection: Any, names: str, *, moves: bool) -> Durability:
    """Return how safe messages are behind this connection.

    ``names`` is the key with the names of all parked messages. ``moves`` says that another server may answer at this
    address.
    """
    info = info_of(connection)
    safety, why = _safety(connection, info)
    return Durability(
        place=_place(connection),
        safety=safety,
        why=why,
        server="" if moves else server_of(info.get("run_id"), info.get("role")),
        memory=_memory(info),
        # Each parked message has its task's id as its name there, until it leaves the line: no count can drift.
        parked=int(plain(connection, ("HLEN", names))),
    )


def _safety(connection: Any, info: dict[str, str]) -> tuple[Safety, str]:
    policy = policy_of(connection, info)
    if policy is not None and evicts(policy):
        return Safety.NEVER, f"its maxmemory-policy {policy} would evict them"
    if not info:
        return Safety.UNTOLD, "it forbids INFO, which tells whether it writes an AOF"
    if info.get("aof_enabled") != "1":
        return Safety.UNTOLD, "it writes no AOF"
    # Redis goes on without its AOF if it cannot write it, with appendfsync everysec.
    if info.get("aof_last_write_status") != "ok":
        return Safety.UNTOLD, "it fails to write its AOF"
    return Safety.LOGGED, APPENDS


def _memory(info: dict[str, str]) -> float:
    most = int(info.get("maxmemory", 0))
    return int(info.get("used_memory", 0)) / most if most else 0.0


def _place(connection: Any) -> str:
    if path := getattr(connection, "path", None):
        return f"unix://{path}"
    scheme = "rediss" if isinstance(connection, redis.SSLConnection) else "redis"
    return f"{scheme}://{connection.host}:{connection.port}/{connection.db}"
