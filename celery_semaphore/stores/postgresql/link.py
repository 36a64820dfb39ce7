"""Keep the connections of one process to a PostgreSQL server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from ...errors import StoreUnavailable
from ..connection_limit import ConnectionLimits
from .connection import Connection, Parameter, Row, translated

T = TypeVar("T")

MAX_SESSIONS = 10  # connections of one process: each costs a process of the server
KEPT = 5  # idle connections at most

# After one of these a call is repeated over a new connection: the server has changed its role, or restarts.
_MOVED = (errors.ReadOnlySqlTransaction, errors.AdminShutdown, errors.CrashShutdown)
_NEEDS_READ_COMMITTED = "CS001"


class Link:
    """Connections to one server, each used by one call at a time.

    It has no threads, unlike psycopg's pool, since the main process of a worker forks. Idle connections stay open
    for the next call if ``keeps`` returns true.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        timeout: float,
        *,
        origin: str = "semaphore_url",
        keeps: Callable[[], bool] = lambda: True,
    ) -> None:
        self.origin = origin  # the setting that holds the parameters, for error texts
        self._parameters = parameters
        self.timeout = timeout
        self._keeps = keeps
        self._isolated = False
        self._inherited: list[Connection] = []  # the parent's connections: keep them open
        self._begin()

    def _begin(self) -> None:
        self._idle: list[Connection] = []
        self._limits = ConnectionLimits(MAX_SESSIONS, self.timeout)
        self._pid = (
            os.getpid()
        )  # last: another thread of a forked child must not take what the parent had

    def call(self, function: str, parameters: Sequence[Parameter]) -> list[Row]:
        def exchange(connection: Connection) -> list[Row]:
            if self._isolated:
                return connection.isolated(function, parameters)
            return connection.call(function, parameters)

        try:
            return self.ask(exchange)
        except StoreUnavailable as error:
            if getattr(error.__cause__, "sqlstate", None) != _NEEDS_READ_COMMITTED:
                raise
        self._isolated = True  # from now on: the default of this role or database is another level
        return self.ask(exchange)

    def ask(self, exchange: Callable[[Connection], T]) -> T:
        """Run the exchange; if the connection fails, repeat it once over a new one: all calls are idempotent."""
        with translated():
            try:
                return self._ask(exchange)
            except _MOVED:
                pass
            except psycopg.OperationalError as error:
                if error.sqlstate is not None:  # the server answered with an error
                    raise
            self.close()  # the others are connected to the same lost server
            return self._ask(exchange)

    def connect(self, *, timeout: float | None = None) -> Connection:
        """Open a connection, which the caller closes; ``timeout`` is for each answer, in seconds."""
        return Connection(self._parameters, timeout or self.timeout)

    def _ask(self, exchange: Callable[[Connection], T]) -> T:
        if self._pid != os.getpid():  # a forked child would read its parent's answers
            self._inherited = self._idle
            self._begin()
        with self._limits.place():
            connection = self._taken()
            try:
                answer = exchange(connection)
            except BaseException:
                # Close it after an interruption, too: the next call would read the answer of this one.
                connection.close()
                raise
            self._keep_or_close(connection)
        return answer

    def _keep_or_close(self, connection: Connection) -> None:
        if len(self._idle) < KEPT and self._keeps():
            self._idle.append(connection)
        else:
            connection.close()

    def _taken(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self.connect()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
