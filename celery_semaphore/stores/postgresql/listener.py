"""Hear of a permit that was handed to a caller: one channel for each ticket."""

from __future__ import annotations

import time

import psycopg

from ...errors import StoreUnavailable
from .connection import Connection, Link, translated
from .schema import Place

AGAIN = 1.0  # seconds between attempts to listen again while the server is away
POLL = 0.5  # seconds after which a caller asks again that cannot listen


class PostgresListener:
    """Listens over a connection of its own; behind a pooler, where that is in vain, it is woken to ask."""

    def __init__(self, link: Link, place: Place, ticket: str) -> None:
        self._link, self._place, self._ticket = link, place, ticket
        self._connection: Connection | None = None
        self._polls = False
        self._listen()

    def wait(self, timeout: float) -> None:
        if self._polls:
            time.sleep(min(timeout, POLL))
            return
        try:
            if self._connection is None:
                self._listen()  # and return, for nobody knows what was missed
            else:
                self._connection.heard(timeout)
        except (psycopg.Error, StoreUnavailable):
            if self._connection is None:
                time.sleep(min(timeout, AGAIN))
            self.close()

    def close(self) -> None:
        """Without a farewell: the server forgets who listened with the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listen(self) -> None:
        with translated():
            connection = self._link.connect()
            try:
                if connection.direct:
                    ((channel,),) = connection.call(self._place.function("channel"), [self._ticket])
                    connection.script(f'LISTEN "{channel}"')
                    self._connection = connection
                else:
                    self._polls = True
                    connection.close()
            except BaseException:
                connection.close()
                raise
