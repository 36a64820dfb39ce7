"""Ask sentinels which server is the primary."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import redis
from redis.connection import ConnectionPool

from .connection import new_connection, plain
from .errors import said
from .finder import QUESTION_TIMEOUT_S, Address

Silent = dict[Address, redis.RedisError]  # the sentinels that did not answer one question, and why


class NoSuchPrimary(redis.ResponseError):
    """The sentinels watch no primary of this name."""


class NoSentinel(redis.RedisError):
    """No sentinel answers. It is no ``ConnectionError``, after which the call would be repeated at once."""


class Sentinels:
    """The sentinels of one primary, those first that answered last.

    ``SENTINEL MASTERS``, which redis-py asks, still names the former primary while the sentinel that leads a failover
    waits for other replicas; the question asked here is answered with the new one.
    """

    def __init__(self, addresses: Iterable[Address], master: str, pool: ConnectionPool) -> None:
        self.master = master
        self._pool = pool  # says how they are reached; it holds no connection
        addresses = tuple(addresses)
        # Not all processes ask the same one first. Replaced as a whole, for several threads may ask.
        self.addresses = tuple(random.sample(addresses, len(addresses)))
        self._kept: tuple[int, Address, Any] | None = None  # pid, and a connection to this sentinel

    def answers(self, deadline: float, silent: Silent) -> Iterator[tuple[Address, Address | None]]:
        """Yield each sentinel that answers, and the server that it names; share the time among all.

        The others are noted, and asked last from now on.
        """
        addresses = self.addresses
        for n, sentinel in enumerate(addresses):
            left = (deadline - time.monotonic()) / (len(addresses) - n)
            if left <= 0:
                return
            try:
                named = self._named_by(sentinel, min(QUESTION_TIMEOUT_S, left))
            except redis.RedisError as error:
                silent[sentinel] = error
                self.ask_last(sentinel)
            else:
                yield sentinel, named

    def ask_last(self, *last: Address) -> None:
        """Ask these after the others from now on."""
        self.addresses = (*(each for each in self.addresses if each not in last), *last)

    def missing(self, silent: Silent) -> redis.RedisError:
        """Return the error for a question that no sentinel answered with a primary."""
        if silent:
            tried = (f"{host}:{port}: {said(error)}" for (host, port), error in silent.items())
            return NoSentinel(f"no sentinel answers with a primary ({'; '.join(tried)})")
        msg = (
            f"the sentinels watch no primary {self.master!r}, which the transport option master_name of"
            " semaphore_url names"
        )
        return NoSuchPrimary(msg)

    def _named_by(self, sentinel: Address, timeout: float) -> Address | None:
        kept, self._kept = self._kept, None  # another thread must not take it as well
        if kept and kept[:2] == (os.getpid(), sentinel):
            with suppress(redis.ConnectionError):  # the sentinel has closed it, or was restarted
                return self._asked(sentinel, kept[2])
        connection = new_connection(self._pool, timeout, sentinel)
        connection.connect()
        return self._asked(sentinel, connection)

    def _asked(self, sentinel: Address, connection: Any) -> Address | None:
        try:
            found = plain(connection, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master))
        except BaseException:
            # After an interruption, too: the next question would read the answer of this one.
            connection.disconnect()
            raise
        self._kept = (os.getpid(), sentinel, connection)
        return (found[0].decode(), int(found[1])) if found else None
