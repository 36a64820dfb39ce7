"""Call a server of the Redis family in one round trip and bounded time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import redis

from ..connection_limit import ConnectionLimits
from .connection import new_connection
from .errors import is_transient, translated

if TYPE_CHECKING:
    from redis.connection import ConnectionPool

    from .finder import Finder


T = TypeVar("T")

POOL_TIMEOUT_S = 2.0  # seconds, with a pool that has no timeout
MOST_REPEATS = 4  # of one call, where another server may take over


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
        self._limits = ConnectionLimits(self._pool.max_connections, self._timeout)
        self._pid = (
            os.getpid()
        )  # last: another thread of a forked child must not take what the parent had

    @property
    def seeks(self) -> bool:
        """Whether another server may take the place of the one that answers now."""
        return self._finder.seeks

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
            if not is_transient(error) or (repeats and not self._finder.seeks):
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
        with self._limits.place():
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
        while timeout is None:  # an idle one has a longer timeout than what is left
            try:
                connection = idle.pop()
            except IndexError:
                break
            if self._finder.leads_to(connection):
                return connection
            connection.disconnect()
        return new_connection(self._pool, timeout)

    def close(self) -> None:
        idle, self._idle = self._idle, []
        with suppress(IndexError):
            while True:  # take each one first: another thread may be about to use it
                idle.pop().disconnect()
