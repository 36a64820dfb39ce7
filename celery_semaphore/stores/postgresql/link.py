"""The connections of one process to a PostgreSQL server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from ...errors import StoreUnavailable
from ..connection_limit import ConnectionLimit
from .connection import Connection, Parameter, Row, translated

T = TypeVar("T")

MAX_SESSIONS = 10  # sessions of one process for calls: each is a process of the server's
KEPT = 5  # of them, while nobody calls

# A server that answers one of these may be asked again over a new connection: it has changed its role, or restarts.
_MOVED = (errors.ReadOnlySqlTransaction, errors.AdminShutdown, errors.CrashShutdown)
_NEEDS_READ_COMMITTED = "CS001"


class Link:
    """Connections to one server, each used by one call at a time.

    No threads of its own, as a pool of psycopg's has: the main process of a worker forks. What nobody uses is
    kept for the next call while ``keeps`` says so.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        timeout: float,
        *,
        origin: str = "semaphore_url",
        keeps: Callable[[], bool] = lambda: True,
    ) -> None:
        self.origin = origin  # where its user wrote the parameters
        self._parameters = parameters
        self.timeout = timeout
        self._keeps = keeps
        self._isolated = False
        self._inherited: list[Connection] = []  # from before a fork
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._connection_limit = ConnectionLimit(MAX_SESSIONS, self.timeout)

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
        self._isolated = True  # from now on: it is a default of this role or database
        return self.ask(exchange)

    def ask(self, exchange: Callable[[Connection], T]) -> T:
        """Let a connection be used; once more over a new one if it fails: all our calls may be repeated."""
        with translated():
            try:
                return self._ask(exchange)
            except _MOVED:
                pass
            except psycopg.OperationalError as error:
                if error.sqlstate is not None:  # the server itself says no
                    raise
            self.close()  # the others lead to the same server that is gone
            return self._ask(exchange)

    def connect(self, *, lock_timeout: float | None = None) -> Connection:
        """A connection that the caller closes; others' answers may take longer."""
        return Connection(self._parameters, lock_timeout or self.timeout)

    def _ask(self, exchange: Callable[[Connection], T]) -> T:
        if self._pid != os.getpid():  # a forked child would read its parent's answers
            self._inherited = self._idle
            self._begin()
        with self._connection_limit:
            connection = self._taken()
            try:
                answer = exchange(connection)
            except BaseException:
                # Even when it was interrupted from outside: an answer that is still to come would be taken
                # for the next call's.
                connection.close()
                raise
            self._put_back(connection)
        return answer

    def _put_back(self, connection: Connection) -> None:
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
