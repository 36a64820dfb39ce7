"""Make connections to a server of the Redis family, and exchange commands and answers over one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import redis

from .errors import by_class

if TYPE_CHECKING:
    from redis.connection import ConnectionPool

    from .finder import Address

Word = bytes | str | int


def new_connection(
    pool: ConnectionPool, timeout: float | None = None, address: Address | None = None
) -> Any:
    """Make a connection as the pool does, which must not count it: an interrupted one would be counted for ever."""
    given = pool.connection_kwargs
    if timeout is not None:
        given = given | {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    if address is not None:
        given = given | {"host": address[0], "port": address[1]}
    return pool.connection_class(**given)


def run_id_of(connection: Any) -> str:
    return str(connection.semaphore_run_id)


class NoSuchDatabase(redis.ResponseError):
    """The server has no database of this number."""


class IsSentinel(redis.ResponseError):
    """The server is a sentinel, which keeps no permits."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} leads to a sentinel, which keeps no permits")


def introduce(connection: Any, url: str) -> None:
    """Connect as redis-py does, then read the run id of the server."""
    try:
        connection.on_connect()
    except redis.ResponseError as error:
        if "DB index" in str(error) or "SELECT" in str(error):
            if _is_sentinel(_info(connection)):  # it has no databases
                raise IsSentinel(url) from error
            msg = f"{url} names a database that the server does not have ({error})"
            if "cluster" in str(error):
                msg = f"{url} names a database, and a Redis Cluster has database 0 only ({error})"
            raise NoSuchDatabase(msg) from error
        raise
    info = _info(connection)
    if _is_sentinel(info):
        raise IsSentinel(url)
    connection.semaphore_run_id = info.get("run_id", "")
    connection.semaphore_is_node = is_node(info)


def _info(connection: Any) -> dict[str, str]:
    try:
        return fields_of(plain(connection, ("INFO", "server")))
    except redis.ResponseError:  # INFO is forbidden: then only a missing record shows a restart
        return {}


def fields_of(answer: bytes | str) -> dict[str, str]:
    """Return the fields of an answer in the form of INFO."""
    text = answer.decode() if isinstance(answer, bytes) else str(answer)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _is_sentinel(info: Mapping[str, str]) -> bool:
    return _mode_of(info) == "sentinel"


def is_node(info: Mapping[str, str]) -> bool:
    """Return whether the server with this INFO is a node of a Redis Cluster."""
    return _mode_of(info) == "cluster"


def _mode_of(info: Mapping[str, str]) -> str | None:
    return info.get("redis_mode") or info.get("server_mode")  # the latter is Valkey's name for it


def exchanged(connection: Any, commands: list[bytes]) -> list[Any]:
    """Return an answer or error for each command; all are read before any is examined.

    At the answer that a server loads its data redis-py closes the connection, so it stands for all that follow.
    """
    connection.send_packed_command([b"".join(commands)])
    answers: list[Any] = []
    while len(answers) < len(commands):
        answer = _answer(connection)
        is_last = isinstance(answer, redis.exceptions.BusyLoadingError)
        answers += [answer] * (len(commands) - len(answers) if is_last else 1)
    return answers


def _answer(connection: Any) -> Any:
    try:
        return _read(connection)
    except redis.ConnectionError as error:
        if isinstance(error, redis.exceptions.BusyLoadingError):
            return error
        raise
    except redis.ResponseError as error:
        return error


def plain(connection: Any, command: Sequence[Word]) -> Any:
    connection.send_command(*command)
    return _read(connection)


def _read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        raise by_class(error) from None


def pack(words: Sequence[Word]) -> bytes:
    """Encode words as bulk strings of the protocol."""
    parts = []
    for word in words:
        if isinstance(word, str):
            raw = word.encode("utf-8", "surrogatepass")
        else:
            raw = word if isinstance(word, bytes) else b"%d" % word
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)
