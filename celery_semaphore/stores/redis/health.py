"""Check, when a worker starts, that this server can keep permits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from ...errors import ConfigurationError, StoreUnavailable
from .connection import NoSuchDatabase, is_node, passes, plain, said

LIES_HERE = "Parked tasks lie in this server:"
INSTEAD = "With on_saturated='requeue' waiting tasks stay in the broker."
SLOTS = "16384"  # of each Redis Cluster
OLDEST = (6, 2)  # for ZADD LT, and scripts that replicate their effects


@contextmanager
def denied_is_misconfigured() -> Iterator[None]:
    """Raise ``ConfigurationError`` for a wrong password or database; while a worker runs that is an outage."""
    try:
        yield
    except StoreUnavailable as error:
        if isinstance(error.__cause__, NoSuchDatabase):
            msg = f"semaphore_url {error.__cause__}: give another number after its last /."
            raise ConfigurationError(msg) from error
        denied = (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError)
        if not isinstance(error.__cause__, denied) and "NOAUTH" not in str(error):
            raise
        msg = f"The store refused the user name or password in semaphore_url: {error.__cause__}"
        raise ConfigurationError(msg) from error


def examine(connection: Any, *, parks: bool = False) -> list[str]:
    """Return the warnings to log; raise ``ConfigurationError`` for a server that must not be used."""
    info = _info(connection)
    if info is None:
        warning = "The server forbids INFO: a restart that loses permits may go unnoticed."
        return [warning, *_eviction(connection), *(_forgetful(connection, {}) if parks else [])]
    version = info.get("redis_version", "0.0")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        msg = f"The store runs Redis {version}; it must be 6.2 or newer, or Valkey."
        raise ConfigurationError(msg)
    found = _of_cluster(connection, info) if is_node(info) else _of_single(info)
    return found + _eviction(connection) + (_forgetful(connection, info) if parks else [])


def _of_single(info: dict[str, str]) -> list[str]:
    if info.get("role") == "slave":
        msg = (
            f"The store is a replica (role=slave) of {info.get('master_host')}:{info.get('master_port')}:"
            " name the primary in semaphore_url, or the sentinels (sentinel://...)."
        )
        raise ConfigurationError(msg)
    return []


def _of_cluster(connection: Any, info: dict[str, str]) -> list[str]:
    """Return the warnings about a Redis Cluster, seen from the node that serves the store's slot."""
    place = f"{getattr(connection, 'host', 'the node')}:{getattr(connection, 'port', '')}"
    if getattr(connection, "db", 0):
        msg = (
            f"semaphore_url names database {connection.db} of a Redis Cluster, where permits are in database 0 only:"
            " take the number after its last / away."
        )
        raise ConfigurationError(msg)
    if info.get("role") == "slave":
        msg = (
            f"{place} serves the store's slot, but is a replica in its Redis Cluster (role=slave): if this is no"
            " failover, which ends by itself, see whether address_remap leads to the right node."
        )
        raise StoreUnavailable(msg)
    try:
        state = _fields(plain(connection, ("CLUSTER", "INFO")))
    except redis.ResponseError:  # it is forbidden, and all else worked
        return []
    covered = state.get("cluster_slots_ok", "0")
    if covered == SLOTS:
        return []
    warning = (
        f"The Redis Cluster serves {covered} of its {SLOTS} slots, says {place} (CLUSTER INFO): unless it has"
        " cluster-require-full-coverage no, it refuses all calls. Give each slot a node, or replace the lost node."
    )
    return [warning]


def _info(connection: Any) -> dict[str, str] | None:
    """Return the server's INFO; None if it is forbidden, or renamed by the provider."""
    try:
        raw = plain(connection, ("INFO", "everything"))
    except redis.ResponseError as error:
        if passes(said(error)) and not isinstance(error, redis.exceptions.NoPermissionError):
            raise
        return None
    return _fields(raw)


def _fields(raw: Any) -> dict[str, str]:
    text = raw.decode() if isinstance(raw, bytes) else str(raw)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _eviction(connection: Any) -> list[str]:
    policy = _config(connection, "maxmemory-policy")
    if policy is None:
        warning = (
            "The server forbids CONFIG: make sure that its maxmemory-policy is noeviction or"
            " volatile-*, for allkeys-* would evict permits."
        )
        return [warning]
    if policy.startswith("allkeys"):
        msg = (
            f"The store's maxmemory-policy is {policy}: it would evict permits when memory is short."
            " Set it to noeviction or a volatile-* policy, or use another server for semaphore_url."
        )
        raise ConfigurationError(msg)
    return []


def _forgetful(connection: Any, info: dict[str, str]) -> list[str]:
    """Return a warning if a restart loses parked messages, which a broker would keep."""
    saves = _config(connection, "save")
    if info.get("aof_enabled") == "1" or saves or _config(connection, "appendonly") == "yes":
        return []
    if saves is None:
        return [
            f"{LIES_HERE} make sure that it has an AOF or save points: CONFIG is forbidden. {INSTEAD}"
        ]
    return [
        f"{LIES_HERE} it has neither an AOF nor save points: a restart loses them. Set appendonly yes. {INSTEAD}"
    ]


def _config(connection: Any, name: str) -> str | None:
    """Return a setting of the server; None if CONFIG is forbidden, or renamed by the provider."""
    try:
        found = plain(connection, ("CONFIG", "GET", name))
    except redis.ResponseError:
        return None
    pairs = found.items() if isinstance(found, dict) else [tuple(found[:2])]
    return next((value.decode() for _, value in pairs if value), "")
