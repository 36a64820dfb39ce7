"""Call a server of the Redis family in one round trip and bounded time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import redis

from ...core.formats import NewerFormat
from ...errors import SemaphoreError, StoreUnavailable
from ..connection_limit import ConnectionLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis.connection import ConnectionPool

    from .finder import Address, Finder


T = TypeVar("T")
Word = bytes | str | int

NEWER = "NEWERFORMAT "  # begins the error of a script in a store of a newer format
POOL_TIMEOUT_S = 2.0  # seconds, with a pool that has no timeout
MOST_REPEATS = 4  # of one call, where another server may take over

# After one of these a call is repeated over a new connection: the server has changed its role or the node, or starts.
_MOVED = ("READONLY", "LOADING", "MASTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")


class Link:
    """Connections to one server, each used by one call at a time.

    Unlike redis-py's client it makes no health check and no retry of its own: each call carries the ``run_id`` of
    the server behind its connection, which would be stale after a reconnect. The finder names that server.
    """

    def __init__(self, pool: ConnectionPool, finder: Finder) -> None:
        self._pool = pool
        self._finder = finder
        self._begin()

    def _begin(self) -> None:
        self._idle: list[Any] = []
        self._timeout = self._pool.connection_kwargs.get("socket_timeout") or POOL_TIMEOUT_S
        self._connection_limit = ConnectionLimit(self._pool.max_connections, self._timeout)
        self._pid = (
            os.getpid()
        )  # last: another thread of a forked child must not take what the parent had

    def ask(self, exchange: Callable[[Any], T]) -> T:
        """Run the exchange; if the connection fails, repeat it over a new one: all calls are idempotent."""
        try:
            return self._ask(exchange)
        except redis.RedisError as error:
            with translated():
                return self._repeat(exchange, error)

    def _repeat(self, exchange: Callable[[Any], T], error: redis.RedisError) -> T:
        """Repeat once, or until the server is found, within one more timeout."""
        deadline = time.monotonic() + self._timeout
        for repeats in range(MOST_REPEATS):
            if not _worth_another(error) or (repeats and not self._finder.seeks):
                break
            self._finder.follow(error, deadline)
            self.close()  # the others are connected to the same lost server
            if (left := deadline - time.monotonic()) <= 0:
                break
            try:
                return self._ask(exchange, left if self._finder.seeks else None)
            except redis.RedisError as later:
                error = later
        self._finder.explain(error)
        raise error

    def _ask(self, exchange: Callable[[Any], T], timeout: float | None = None) -> T:
        if self._pid != os.getpid():  # a forked child would read its parent's answers
            self._pool.reset()
            self._begin()
        self._finder.look()
        with self._connection_limit:
            idle = self._idle
            connection = self._taken(idle, timeout)
            try:
                connection.connect()
                answer = exchange(connection)
            except BaseException:
                # Disconnect after an interruption, too: the next call would read the answer of this one.
                connection.disconnect()
                raise
            if timeout is None and idle is self._idle:
                idle.append(connection)
            else:  # it has a shorter timeout, or leads to a server that was left meanwhile
                connection.disconnect()
        return answer

    def _taken(self, idle: list[Any], timeout: float | None) -> Any:
        if timeout is None:  # an idle one has a longer timeout than what is left
            with suppress(IndexError):
                while not self._finder.leads_to(connection := idle.pop()):
                    connection.disconnect()
                return connection
        return new_connection(self._pool, timeout)

    def close(self) -> None:
        idle, self._idle = self._idle, []
        with suppress(IndexError):
            while True:  # take each one first: another thread may be about to use it
                idle.pop().disconnect()


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


def introduce(connection: Any, url: str) -> None:
    """Connect as redis-py does, then read the run id of the server."""
    try:
        connection.on_connect()
    except redis.ResponseError as error:
        if "DB index" in str(error) or "SELECT" in str(error):
            msg = f"{url} names a database that the server does not have ({error})"
            if "cluster" in str(error):
                msg = f"{url} names a database, and a Redis Cluster has database 0 only ({error})"
            raise NoSuchDatabase(msg) from error
        raise
    connection.send_command("INFO", "server")
    try:
        info = connection.read_response()
    except redis.ResponseError:  # INFO is forbidden: then only a missing record shows a restart
        info = b""
    text = info.decode() if isinstance(info, bytes) else str(info)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    connection.semaphore_run_id = fields.get("run_id", "")
    connection.semaphore_is_node = is_node(fields)


def is_node(info: Mapping[str, str]) -> bool:
    """Return whether the server with this INFO is a node of a Redis Cluster; Valkey has another name for the field."""
    return "cluster" in {info.get("redis_mode"), info.get("server_mode")}


def _worth_another(error: redis.RedisError) -> bool:
    if isinstance(error, redis.ResponseError):
        return said(error).startswith(_MOVED)
    return isinstance(error, (redis.ConnectionError, redis.TimeoutError))


def exchanged(connection: Any, commands: list[bytes]) -> list[Any]:
    """Return an answer or error for each command; all are read before any is examined."""
    connection.send_packed_command([b"".join(commands)])
    return [_answer(connection) for _ in commands]


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except redis.ConnectionError as error:
        if isinstance(error, redis.exceptions.BusyLoadingError):
            return error
        raise
    except redis.ResponseError as error:
        return error


def plain(connection: Any, command: Sequence[Word]) -> Any:
    connection.send_command(*command)
    return connection.read_response()


def said(error: Exception) -> str:
    """Return the server's error text, with the code that redis-py replaces by a class for some errors."""
    codes = {
        redis.exceptions.ReadOnlyError: "READONLY ",
        redis.exceptions.BusyLoadingError: "LOADING ",
        redis.exceptions.MasterDownError: "MASTERDOWN ",
        redis.exceptions.NoScriptError: "NOSCRIPT ",
        redis.exceptions.OutOfMemoryError: "OOM ",
        redis.exceptions.MovedError: "MOVED ",
        redis.exceptions.AskError: "ASK ",
        redis.exceptions.TryAgainError: "TRYAGAIN ",
        redis.exceptions.ClusterDownError: "CLUSTERDOWN ",
    }
    return codes.get(type(error), "") + str(error)


# An error of the script itself is final, unlike one that the server's state or its operator caused.
_OF_A_SCRIPT = re.compile(r"\buser_script\b|^WRONGTYPE\b")
_PASSES = re.compile(
    r"(?:^|\s-?)(?:NOAUTH|WRONGPASS|NOPERM|OOM|MISCONF|READONLY|LOADING|MASTERDOWN|BUSY|NOREPLICAS|CLUSTERDOWN"
    r"|TRYAGAIN|MOVED|ASK|UNKILLABLE|EXECABORT|NOSCRIPT)\b"
    r"|^Script killed|^ACL failure|The user executing the script can't|max number of clients"
)


def is_final(reason: str) -> bool:
    """Return whether the server would always give the same answer, so that a retry is useless."""
    return bool(_OF_A_SCRIPT.search(reason)) and not passes(reason)


def passes(reason: str) -> bool:
    """Return whether the server refused because of its state or its operator."""
    return bool(_PASSES.search(reason))


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the driver into the library's own; none of them shows a password."""
    try:
        yield
    except redis.RedisError as error:
        reason = said(error) or type(error).__name__
        if isinstance(error, redis.ResponseError) and is_final(reason):
            msg = f"The store cannot take what it was given: {reason}"
            raise SemaphoreError(msg) from error
        if reason.startswith(NEWER):
            raise NewerFormat("the store", int(reason.removeprefix(NEWER))) from error
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        msg = f"The store did not answer: {reason}{notes}"
        raise StoreUnavailable(msg, reason) from error


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
