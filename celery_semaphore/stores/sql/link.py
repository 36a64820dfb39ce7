"""Keep the connections of one process to a database: never one of the project's, where a user's transaction is open."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..connection_limit import ConnectionLimits
from ..non_reentrant_lock import NonReentrantLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ..connection_limit import Place
    from .dialects import Dialect

MAX_CONNECTIONS = 10  # of one process
KEPT = 5  # idle connections at most
# A child closes none of its parent's connections: the server would end the parent's session.
_inherited: list[Any] = []


class Link:
    """Connections to one database, each used for one exchange at a time.

    Idle connections stay open for the next call if ``keeps`` returns true.
    """

    def __init__(
        self, dialect: Dialect, timeout: float, *, keeps: Callable[[], bool] = lambda: True
    ) -> None:
        self.dialect, self.timeout, self._keeps = dialect, timeout, keeps
        self._held: list[Place] = []  # while this process forks
        self._begin()
        if dialect.closes_before_fork:
            with _forking:
                _closed_before_fork.add(self)

    def _begin(self) -> None:
        self._idle: list[Any] = []
        self._limits = ConnectionLimits(MAX_CONNECTIONS, self.timeout)
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
        with self._limits.place():
            try:
                connection = self._idle.pop() if self._idle else self._connect()
            except IndexError:  # another thread was faster
                connection = self._connect()
            try:
                yield connection
            except BaseException as error:
                # Close it after an interruption, too: its transaction may be open.
                with suppress(self.dialect.errors):
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
                self._close_idle()  # the others are connected to the same lost server
            raise self.dialect.translated(error) from error

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():
            _inherited.extend(self._idle)
            self._begin()

    def close(self) -> None:
        """Close the idle connections, at no moment at which this process forks."""
        self._forget_parent()
        with self._limits.place():
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def hold(self) -> None:
        """Wait until no call is under way, keep new ones waiting, and close all connections."""
        self._forget_parent()
        self._held += self._limits.places()
        self._close_idle()

    def let_go(self) -> None:
        self._forget_parent()
        self._held.clear()


# SQLite keeps the locks of a file in tables of the process, with mutexes. A child has copies of both: a mutex that a
# thread of the parent had stays taken, and a lock that only the parent has on the file seems to be the child's. So
# nothing of SQLite is in use when a process forks, as far as the links know.
_forking = RLock()
_closed_before_fork = WeakSet[Link]()


def _before_fork() -> None:
    _forking.acquire()
    for link in [*_closed_before_fork]:
        link.hold()


def _after_fork() -> None:
    try:
        for link in [*_closed_before_fork]:
            link.let_go()
    finally:
        with suppress(RuntimeError):  # a signal handler has raised before it was taken
            _forking.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
