"""Check, when a worker starts, that this server can keep permits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from ...errors import ConfigurationError, StoreUnavailable
from . import tls
from .connection import IsSentinel, NoSuchDatabase, fields_of, is_node, plain
from .errors import passes, said
from .rights import check_rights, denied
from .sentinels import NoSuchPrimary

LIES_HERE = "Parked tasks lie in this server:"
INSTEAD = "With on_saturated='requeue' waiting tasks stay in the broker."
SLOTS = "16384"  # of each Redis Cluster
NEEDS_NONE = "without any password configured"  # in the error of a server that needs no password
SENTINEL = (
    "begin it with sentinel://, and name the primary by master_name in semaphore_transport_options."
)
OLDEST = (6, 2)  # for ZADD LT, and scripts that replicate their effects


@contextmanager
def denied_is_misconfigured(key: str) -> Iterator[None]:
    """Raise ``ConfigurationError`` for a wrong password or database; while a worker runs that is an outage."""
    try:
        yield
    except StoreUnavailable as error:
        if (msg := _mistake(error, key)) is None:
            raise StoreUnavailable(f"{error}{tls.hint(error)}", error.reason) from error
        raise ConfigurationError(msg) from error


def _mistake(error: StoreUnavailable, key: str) -> str | None:
    """Explain an error that is an outage while a worker runs, but a configuration mistake at its start."""
    cause = error.__cause__
    if isinstance(cause, NoSuchDatabase):
        return f"semaphore_url {cause}: give another number after its last /."
    if isinstance(cause, IsSentinel):
        return f"semaphore_url {cause}: {SENTINEL}"
    if isinstance(cause, NoSuchPrimary):
        return f"{cause}: give the name that their configuration has after 'sentinel monitor'."
    if isinstance(cause, redis.exceptions.NoPermissionError):
        return denied(key, str(cause))
    if isinstance(cause, redis.exceptions.AuthenticationError) or "NOAUTH" in str(error):
        # A sentinel without a password refuses any; redis-py closes the connection, so it cannot be asked what it is.
        hint = f" If the URL leads to a sentinel, {SENTINEL}" if NEEDS_NONE in str(cause) else ""
        return f"The store refused the user name or password in semaphore_url: {cause}{hint}"
    return tls.mistake(error.reason)


def examine(connection: Any, key: str, *, parks: bool = False) -> list[str]:
    """Return the warnings to log; raise ``ConfigurationError`` for a server that must not be used.

    ``key`` is one of the prefix that is never written.
    """
    info = info_of(connection)
    warnings = [] if info.get("run_id") else [_no_run_id(info)]
    _check_version(info)
    # A node of a Cluster that does not serve the store's slot answers MOVED here, and the call is repeated at another.
    check_rights(connection, key)
    warnings += _of_cluster(connection) if is_node(info) else _of_single(info)
    return warnings + _eviction(connection, info) + (_forgetful(connection, info) if parks else [])


def _no_run_id(info: dict[str, str]) -> str:
    hidden = "hides run_id in INFO" if info else "forbids INFO"
    return (
        f"The server {hidden}: a restart or a failover that loses permits may go unnoticed. Allow INFO to the user"
        " (ACL SETUSER <user> +info); a single server may keep its data over a restart instead (appendonly yes)."
    )


def _check_version(info: dict[str, str]) -> None:
    version = info.get("redis_version", "")
    if version and tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        msg = f"The store runs Redis {version}; it must be 6.2 or newer, or Valkey."
        raise ConfigurationError(msg)


def _of_single(info: dict[str, str]) -> list[str]:
    if info.get("role") == "slave":
        msg = (
            f"The store is a replica (role=slave) of {info.get('master_host')}:{info.get('master_port')}:"
            " name the primary in semaphore_url, or the sentinels (sentinel://...)."
        )
        raise ConfigurationError(msg)
    return []


def _of_cluster(connection: Any) -> list[str]:
    """Return the warnings about a Redis Cluster, seen from the node that serves the store's slot."""
    place = f"{getattr(connection, 'host', 'the node')}:{getattr(connection, 'port', '')}"
    if getattr(connection, "db", 0):
        msg = (
            f"semaphore_url names database {connection.db} of a Redis Cluster, where permits are in database 0 only:"
            " remove the number after its last /."
        )
        raise ConfigurationError(msg)
    try:
        state = fields_of(plain(connection, ("CLUSTER", "INFO")))
    except redis.ResponseError:  # it is forbidden, and all else worked
        warning = (
            f"The user may not ask {place} about the Redis Cluster, so after a failover only the nodes that semaphore_url"
            " names are tried: allow it (ACL SETUSER <user> +cluster|slots +cluster|info)."
        )
        return [warning]
    covered = state.get("cluster_slots_ok", "0")
    if covered == SLOTS:
        return []
    warning = (
        f"The Redis Cluster serves {covered} of its {SLOTS} slots, says {place} (CLUSTER INFO): unless it has"
        " cluster-require-full-coverage no, it refuses all calls. Give each slot a node, or replace the lost node."
    )
    return [warning]


def info_of(connection: Any) -> dict[str, str]:
    """Return the server's INFO; nothing if it is forbidden, or renamed by the provider."""
    try:
        raw = plain(connection, ("INFO", "everything"))
    except redis.ResponseError as error:
        if passes(said(error)) and not isinstance(error, redis.exceptions.NoPermissionError):
            raise
        return {}
    return fields_of(raw)


def policy_of(connection: Any, info: dict[str, str]) -> str | None:
    """Return the eviction policy, which hosted servers tell by INFO alone; None if it is hidden."""
    return info.get("maxmemory_policy") or config(connection, "maxmemory-policy")


def evicts(policy: str) -> bool:
    """Return whether this policy takes keys that have no expiry, as ours have none."""
    return policy.startswith("allkeys")


def _eviction(connection: Any, info: dict[str, str]) -> list[str]:
    policy = policy_of(connection, info)
    if policy is None:
        warning = (
            "The server forbids CONFIG, and INFO does not name its maxmemory-policy: make sure that it is noeviction or"
            " volatile-*, because allkeys-* would evict permits."
        )
        return [warning]
    if evicts(policy):
        msg = (
            f"The store's maxmemory-policy is {policy}: it would evict permits when memory is short."
            " Set it to noeviction or a volatile-* policy, or use another server for semaphore_url."
        )
        raise ConfigurationError(msg)
    return []


def _forgetful(connection: Any, info: dict[str, str]) -> list[str]:
    """Return a warning if a restart loses parked messages, which a broker would keep."""
    saves = config(connection, "save")
    if saves or appends(connection, info):
        return []
    if saves is None:
        return [
            f"{LIES_HERE} make sure that it has an AOF or save points: CONFIG is forbidden. {INSTEAD}"
        ]
    return [
        f"{LIES_HERE} it has neither an AOF nor save points: a restart loses them. Set appendonly yes. {INSTEAD}"
    ]


def appends(connection: Any, info: dict[str, str]) -> bool:
    """Return whether the server is known to write an AOF."""
    return info.get("aof_enabled") == "1" or config(connection, "appendonly") == "yes"


def config(connection: Any, name: str) -> str | None:
    """Return a setting of the server; None if CONFIG is forbidden, or renamed by the provider."""
    try:
        found = plain(connection, ("CONFIG", "GET", name))
    except redis.ResponseError:
        return None
    if not found:  # the server has no such setting, or hides it
        return None
    pairs = found.items() if isinstance(found, dict) else [tuple(found[:2])]
    return next((value.decode() for _, value in pairs if value), "")
