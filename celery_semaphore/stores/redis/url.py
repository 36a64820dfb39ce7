"""Make connections from a URL in the form of Celery."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from redis.backoff import NoBackoff
from redis.connection import Connection, ConnectionPool, SSLConnection
from redis.retry import Retry

from ...errors import ConfigurationError
from ..options import StoreOptions
from .connection import introduce, new_connection
from .finder import Address
from .sentinels import Sentinels

if TYPE_CHECKING:
    from collections.abc import Mapping

Options = dict[str, Any]
MAX_CONNECTIONS = 50  # connections of one process, unless the URL says max_connections

_SCHEMES = {
    "valkey": "redis",
    "valkeys": "rediss",
    "unix": "unix",
    "socket": "unix",
    "redis+socket": "unix",
}
# schemes of a Redis Cluster, and how one of its nodes is reached
_CLUSTER = {
    "redis+cluster": "redis",
    "rediss+cluster": "rediss",
    "valkey+cluster": "redis",
    "valkeys+cluster": "rediss",
}
_SENTINEL = "sentinel://"
_SEVERAL = re.compile(";(?=[a-z+]+://)")  # alternative brokers; permits are kept in the first
# The transport options of a broker that concern the connection.
_CONNECTION_OPTIONS = {
    "username",
    "password",
    "socket_keepalive",
    "socket_keepalive_options",
    "client_name",
    "credential_provider",
}


def pool_from_url(url: str, given: StoreOptions) -> ConnectionPool:
    """Make a pool of connections with timeouts and the server's run id, and without retries of their own."""
    options = _options(given.timeout, given.transport_options)
    options["redis_connect_func"] = partial(introduce, url=redacted(url))
    if isinstance(given.ssl, dict):
        options |= given.ssl
    try:
        if url.startswith(_SENTINEL):
            return _of_primary(url, options, tls=bool(given.ssl))
        return _plain(_of_one_node(url), options, tls=bool(given.ssl))
    except (ValueError, TypeError) as error:
        raise _unreadable(url, error) from None  # the cause would show the password


def _unreadable(url: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"semaphore_url {redacted(url)!r} cannot be read: {error}")


def nodes_from_url(url: str) -> list[Address]:
    """Return the addresses of the nodes in the URL of a Redis Cluster; none for other URLs."""
    if url.partition("://")[0] not in _CLUSTER:
        return []
    parts = [urlsplit(f"//{host}") for host in _hosts(url)]
    return [(part.hostname or "localhost", part.port or 6379) for part in parts]


def _of_one_node(url: str) -> str:
    """Return the URL of the first node of a Redis Cluster, and any other URL as it is."""
    scheme = url.partition("://")[0]
    if scheme not in _CLUSTER:
        return url
    first, *others = _SEVERAL.split(url)
    if others and {_split(other)[0] for other in others} - {"", _split(first)[0]}:
        msg = "all nodes of a Redis Cluster have one user name and password"
        raise ValueError(msg)
    for host in _hosts(url):
        _check_place(urlsplit(f"//{host}"))
    userinfo, hosts, rest = _split(first)
    place = urlsplit(rest)
    if {unquote(place.path).strip("/"), *parse_qs(place.query).get("db", [])} - {"", "0"}:
        msg = "a Redis Cluster has database 0 only, so nothing but /0 may follow its nodes"
        raise ValueError(msg)
    return f"{_CLUSTER[scheme]}://{userinfo}{hosts[0]}{rest}"


def _hosts(url: str) -> list[str]:
    return [host for part in _SEVERAL.split(url) for host in _split(part)[1]]


def _split(url: str) -> tuple[str, list[str], str]:
    """Return the user name and password of a URL, its hosts, and what follows them."""
    everything = url.partition("://")[2]
    netloc = re.split("[/?#]", everything, maxsplit=1)[0]
    userinfo, at, hosts = netloc.rpartition("@")
    return userinfo + at, re.split("[;,]", hosts), everything.removeprefix(netloc)


def _options(timeout: float, transport_options: Mapping[str, Any]) -> Options:
    known = {k: v for k, v in transport_options.items() if k in _CONNECTION_OPTIONS}
    return known | {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "max_connections": MAX_CONNECTIONS,
        "protocol": 2,  # with 3, redis-py listens for notifications that are not needed here
    }


def _strict(pool: ConnectionPool) -> ConnectionPool:
    # Set after the URL's own options, which would take precedence.
    pool.connection_kwargs.update(
        retry=Retry(NoBackoff(), 0),
        retry_on_timeout=False,
        retry_on_error=[],
        decode_responses=False,
        health_check_interval=0,
    )
    return pool


def _plain(url: str, options: Options, *, tls: bool) -> ConnectionPool:
    scheme, _, rest = url.partition("://")
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme == "redis" and tls:
        scheme = "rediss"
    if scheme == "unix":
        rest = rest.replace("virtual_host=", "db=")
    else:
        rest = _SEVERAL.split(rest)[0]
        _check_place(urlsplit(f"{scheme}://{rest}"))
        options["socket_keepalive"] = options.get("socket_keepalive", True)
    return _strict(ConnectionPool.from_url(f"{scheme}://{rest}", **options))


def _of_primary(url: str, options: Options, *, tls: bool) -> ConnectionPool:
    """Make the pool of a primary, without the address, which the sentinels know."""
    first = _places(url)[0]
    database = first.path.strip("/") or parse_qs(first.query).get("db", ["0"])[0]
    options |= {"db": int(database), "host": "", "port": 0}
    options["socket_keepalive"] = options.get("socket_keepalive", True)
    if first.password:
        options |= {"password": unquote(first.password), "username": first.username or None}
    return _strict(_pool(options, tls=tls))


def _pool(options: Options, *, tls: bool) -> ConnectionPool:
    return ConnectionPool(connection_class=SSLConnection if tls else Connection, **options)


def sentinels_from_url(url: str, given: StoreOptions) -> Sentinels | None:
    """Return the sentinels of a URL; none for other URLs."""
    if not url.startswith(_SENTINEL):
        return None
    options: Options = {"protocol": 2} | dict(given.transport_options.get("sentinel_kwargs") or {})
    tls = options.pop("ssl", False)  # as redis-py has it
    try:
        addresses = [(part.hostname or "localhost", part.port or 26379) for part in _places(url)]
        pool = _strict(_pool(options, tls=tls))
        new_connection(pool)  # raises TypeError for an option that there is not
        return Sentinels(addresses, _master_name(given), pool)
    except (ValueError, TypeError) as error:
        raise _unreadable(url, error) from None


def _master_name(given: StoreOptions) -> str:
    if name := given.transport_options.get("master_name"):
        return str(name)
    msg = 'the transport option "master_name" must name the primary that the sentinels watch'
    raise ValueError(msg)


def _places(url: str) -> list[SplitResult]:
    parts = [urlsplit(part) for part in url.split(";") if part]
    for part in parts:
        if part.scheme != "sentinel":
            msg = f"each sentinel begins with sentinel://, and one with {part.scheme}:"
            raise ValueError(msg)
        _check_place(part)
    return parts


def _check_place(url: SplitResult) -> None:
    """Raise for errors that the driver would ignore, or report with a part of the password."""
    try:
        _ = url.port
    except ValueError:
        msg = "the port is not a number (in a password, write / as %2F, ? as %3F and # as %23)"
        raise ValueError(msg) from None
    database = unquote(url.path).strip("/")
    if database and not database.isdecimal():
        msg = "the database, the part after the last /, is not a number"
        raise ValueError(msg)


def redacted(url: str) -> str:
    """Return the URL without its passwords."""
    return ";".join(_without_password(part) for part in _SEVERAL.split(url))


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if "=" in userinfo.partition("?")[2]:  # the @ is of a password in the query
        return f"{scheme}{separator}***"
    hidden = f"{userinfo.partition(':')[0]}:***@" if at else ""
    return f"{scheme}{separator}{hidden}{place.partition('?')[0]}"
