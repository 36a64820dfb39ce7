"""Hear of a permit that was handed to a caller: one channel for each ticket."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import redis

from ...errors import StoreUnavailable
from .connection import new_connection, plain, translated

if TYPE_CHECKING:
    from redis.connection import ConnectionPool

AGAIN = 1.0  # seconds between attempts to listen again while the server is away


class RedisListener:
    """Subscribed over a connection of its own, which the server's messages would make useless for calls.

    It takes nobody's place: many who wait must not leave the keeper without a connection.
    """

    def __init__(self, pool: ConnectionPool, channel: str) -> None:
        self._connection = new_connection(pool)
        self._channel = channel.encode("utf-8", "surrogatepass")
        self._subscribed = False
        try:
            self._subscribe()
        except BaseException:
            self.close()
            raise

    def wait(self, timeout: float) -> None:
        try:
            if not self._subscribed:
                self._subscribe()  # and return, for nobody knows what was missed
            elif self._connection.can_read(timeout):
                self._connection.read_response()
        except (redis.RedisError, StoreUnavailable):
            if not self._subscribed:
                time.sleep(min(timeout, AGAIN))
            self.close()

    def close(self) -> None:
        """Without a farewell: the server forgets the subscription with its connection."""
        self._subscribed = False
        self._connection.disconnect()

    def _subscribe(self) -> None:
        """Only once the server has confirmed it can nothing be missed any more."""
        with translated():
            self._connection.connect()
            plain(self._connection, ("SUBSCRIBE", self._channel))
            self._subscribed = True
