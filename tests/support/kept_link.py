"""Connections to PostgreSQL that outlive the stores of tests."""

import os
from typing import ClassVar

from celery_semaphore.stores.postgresql.connection import Connection
from celery_semaphore.stores.postgresql.link import Link


class KeptLink(Link):
    """A link whose connections outlive it: in each new one the server compiles all functions again.

    For stores of servers that run as long as the session.
    """

    _kept: ClassVar[dict[str, list[Connection]]] = {}

    @property
    def _of_server(self) -> list[Connection]:
        return self._kept.setdefault(f"{os.getpid()} {self._parameters}", [])

    def _taken(self) -> Connection:
        try:
            return self._idle.pop() if self._idle else self._of_server.pop()
        except IndexError:
            return self.connect()

    def keep(self) -> None:
        """Leave its connections to the next link."""
        while self._idle:
            self._of_server.append(self._idle.pop())
