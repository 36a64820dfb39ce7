"""Keep the connections of one process to a database: never one of the project's, where a user's transaction is open."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..connection_limit import ConnectionLimit
from ..non_reentrant_lock import NonReentrantLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from .dialects import Dialect

MAX_CONNECTIONS = 10  # of one process
KEPT = 5  # idle connections at most
# A child closes none of its parent's connections: it would close a file that has the parent's locks.
_inherited: list[Any] = []


class Link:
    """Connections to one database, each used for one exchange at a time.

    Idle connections stay open for the next call if ``keeps`` returns true.
    """

    def __init__(
        self, dialect: Dialect, timeout: float, *, keeps: Callable[[], bool] = lambda: True
    ) -> None:
        self.dialect, self.timeout, self._keeps = dialect, timeout, keeps
        self._begin()

    def _begin(self) -> None:
        self._idle: list[Any] = []
        self._limit = ConnectionLimit(MAX_CONNECTIONS, self.timeout)
        self._lock = NonReentrantLock(self.timeout)
        self._pid = os.getpid()  # last: another thread must not take what the parent had

    def writing(self) -> AbstractContextManager[object]:
        """Return what keeps other threads from writing where the database has one writer.

        Threads wait for each other in their order; the clients of a database ask again now and then.
        """
        self._forget_parent()
        return self._lock if self.dialect.one_writer else nullcontext()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Lend a connection; errors of the driver are raised as errors of the store."""
        self._forget_parent()
        with self._limit.place():
            try:
                connection = self._idle.pop() if self._idle else self._connect()
            except IndexError:  # another thread was faster
                connection = self._connect()
            try:
                yield connection
            except BaseException as error:
                # Close it after an interruption, too: its transaction may be open.
                connection.close()
                self._raise_translated(error)
                raise
            if len(self._idle) < KEPT and self._keeps():
                self._idle.append(connection)
            else:
                connection.close()

    def _connect(self) -> Any:
        with self.translated():
            return self.dialect.connect(self.timeout)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise errors of the driver as errors of the store."""
        try:
            yield
        except self.dialect.errors as error:
            self._raise_translated(error)

    def _raise_translated(self, error: BaseException) -> None:
        if isinstance(error, self.dialect.errors):
            if self.dialect.is_lost(error):
                self.close()  # the others are connected to the same lost server
            raise self.dialect.translated(error) from error

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():
            _inherited.extend(self._idle)
            self._begin()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
