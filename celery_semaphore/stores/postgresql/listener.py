"""Hear of a permit that was handed to a caller: one channel for each wait, one connection for all of them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Event, Thread

import psycopg

from ...errors import StoreUnavailable
from ..turn import Engaged, Turn
from .connection import Connection, translated
from .link import Link
from .schema import Place

AGAIN = 1.0  # seconds between attempts to listen again while the server is away
POLL = 0.5  # seconds after which a caller asks again that cannot listen
LOOK = 5.0  # seconds after which the ears look whether anybody still listens


class Ears:
    """One connection that listens for all callers of this process, read by a thread as long as there are any.

    A connection for each caller would be a process of the server for each.
    """

    def __init__(self, link: Link, place: Place) -> None:
        self._link, self._place = link, place
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._connection: Connection | None = None
        self._listeners: dict[str, set[PostgresListener]] = {}
        self._use = Turn(self._link.timeout)  # of the connection, and of who listens

    def open(self, listener: PostgresListener) -> None:
        """From the moment in which this returns nothing is missed any more."""
        if self._pid != os.getpid():  # a forked child has no thread, and must not read its parent's
            self._begin()
        try:
            with self._use, translated():
                self._listen_or_lose(listener)
        except Engaged:
            listener.polls = True

    def _listen_or_lose(self, listener: PostgresListener) -> None:
        try:
            self._listen(listener)
        except BaseException:
            self._lose(self._connection)
            raise

    def _listen(self, listener: PostgresListener) -> None:
        connection = self._connection or self._connect()
        if connection is None:
            listener.polls = True
            return
        ((channel,),) = connection.call(self._place.function("channel"), [listener.nonce])
        listener.channel = str(channel)
        if channel not in self._listeners:
            connection.script(f'LISTEN "{channel}"')
        self._listeners.setdefault(str(channel), set()).add(listener)
        self._tell(connection.notified())

    def _connect(self) -> Connection | None:
        connection = self._link.connect()
        if not connection.direct:  # the server would tell it to another client of the pooler
            connection.close()
            return None
        self._connection = connection
        Thread(target=self._read, args=[connection], daemon=True).start()
        return connection

    def shut(self) -> None:
        if self._pid == os.getpid():
            with suppress(Engaged), self._use:
                self._lose(self._connection)

    def close(self, listener: PostgresListener) -> None:
        if self._pid != os.getpid():
            return
        with suppress(Engaged), self._use:
            others = self._listeners.get(listener.channel, set())
            others.discard(listener)
            if listener.channel in self._listeners and not others:
                del self._listeners[listener.channel]
                if self._connection:
                    with suppress(psycopg.Error):
                        self._connection.script(f'UNLISTEN "{listener.channel}"')
                        self._tell(self._connection.notified())

    def _read(self, connection: Connection) -> None:
        while True:
            with suppress(psycopg.Error, OSError, ValueError):  # it may be closed meanwhile
                connection.readable(LOOK)
            with suppress(Engaged), self._use:
                if connection is not self._connection:
                    return
                try:
                    connection.consume()
                    self._tell(connection.notified())
                except psycopg.Error:
                    self._lose(connection)
                    return
                if not self._listeners:
                    self._lose(connection)
                    return

    def _tell(self, channels: list[str]) -> None:
        for channel in channels:
            for listener in self._listeners.get(channel, ()):
                listener.called.set()

    def _lose(self, connection: Connection | None) -> None:
        """Without a farewell: the server forgets who listened with the connection."""
        if connection is not None:
            connection.close()
        self._connection = None
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.lost()
        self._listeners = {}


class PostgresListener:
    """Behind a pooler, where listening is in vain, it wakes its caller now and then to ask.

    So it does in a signal handler that interrupted one who uses the connection.
    """

    def __init__(self, ears: Ears, nonce: str) -> None:
        self._ears, self.nonce = ears, nonce
        self.called, self.channel, self.polls, self._open = Event(), "", False, True
        ears.open(self)

    def wait(self, timeout: float) -> None:
        if self.polls:
            time.sleep(min(timeout, POLL))
        elif self._open:
            self.called.wait(timeout)
            self.called.clear()  # whoever waited asks now, and so learns of a call in this very moment
        else:
            try:
                self._ears.open(self)  # and return, for nobody knows what was missed
                self._open = True
            except StoreUnavailable:
                time.sleep(min(timeout, AGAIN))

    def lost(self) -> None:
        self._open = False
        self.called.set()

    def close(self) -> None:
        self._ears.close(self)
