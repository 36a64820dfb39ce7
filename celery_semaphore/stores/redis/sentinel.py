"""Find the primary that sentinels watch, also after they have promoted another server."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from typing import Any

import redis
from redis.connection import ConnectionPool

from .connection import PAUSE_S, QUESTION_TIMEOUT_S, Address, new_connection, plain, said

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0  # from one question to the next, while calls are made ...
SILENT_S = 5.0  # ... or after one that no sentinel answered: they must not hold up each call


@dataclass(frozen=True)
class Sentinels:
    """Where the sentinels are, how they are reached, and what they call the primary."""

    addresses: tuple[Address, ...]
    master: str
    pool: ConnectionPool  # says how; it holds no connection


class NoSuchPrimary(redis.ResponseError):
    """The sentinels watch no primary of this name."""


class NoSentinel(redis.RedisError):
    """No sentinel answers. It is no ``ConnectionError``, after which the call would be repeated at once."""


class PrimaryFinder:
    """Decides to which server a pool connects: the one that the sentinels name.

    After ``SENTINEL FAILOVER`` the former primary goes on as one for ten seconds or more, and so does one that was
    paused. It would admit tasks beside those that the new primary admits, so the sentinels are asked while calls are
    made, and connections to another server than they name are not used again.

    ``SENTINEL MASTERS``, which redis-py asks, still names the former one while the sentinel that leads the failover
    waits for other replicas.
    """

    seeks = True

    def __init__(self, pool: ConnectionPool, sentinels: Sentinels) -> None:
        self._pool = pool
        self._timeout = pool.connection_kwargs["socket_timeout"]
        self._master = sentinels.master
        self._reached_by = sentinels.pool
        # Not all processes ask the same one first.
        self._sentinels = tuple(random.sample(sentinels.addresses, len(sentinels.addresses)))
        self._known = False
        self._silent = False
        self._due = 0.0  # monotonic time of the next question

    @property
    def place(self) -> Address:
        """The address of the primary."""
        given = self._pool.connection_kwargs
        return given["host"], given["port"]

    def leads_to(self, connection: Any) -> bool:
        """Return whether this connection leads to the primary."""
        return (connection.host, connection.port) == self.place

    def look(self) -> None:
        """Ask the sentinels before a call, if it is time.

        Raise ``NoSentinel`` or ``NoSuchPrimary`` if no primary is known yet.
        """
        now = time.monotonic()
        if now < self._due and self._known:
            return
        # First: no other thread asks meanwhile, no signal handler, and an exception delays the next question only.
        self._due = now + self._timeout
        self._find(now + self._timeout)

    def follow(self, error: redis.RedisError, deadline: float) -> None:  # noqa: ARG002 - the finder of nodes needs it
        """Ask the sentinels after an error of the primary, and wait a moment if they name the same server."""
        before = self.place
        self._find(deadline)
        if self.place == before:
            time.sleep(min(PAUSE_S, max(0.0, deadline - time.monotonic())))

    def explain(self, error: redis.RedisError) -> None:
        """Note at the error which server gave it."""
        if self._known:
            host, port = self.place
            error.add_note(f"{host}:{port}, the primary {self._master!r} of the sentinels")

    def _find(self, deadline: float) -> None:
        """Go where the first sentinel that answers says, and ask the others last the next time."""
        silent: dict[Address, redis.RedisError] = {}
        unknown = False
        for sentinel in self._sentinels:
            left = min(QUESTION_TIMEOUT_S, deadline - time.monotonic())
            if left <= 0:
                break
            try:
                found = self._named_by(sentinel, left)
            except redis.RedisError as error:
                silent[sentinel] = error
                continue
            unknown = found is None
            if found:
                self._go(found, last=tuple(silent))
                return
        self._due = time.monotonic() + SILENT_S
        self._report(self._missing(silent, unknown=unknown))

    def _named_by(self, sentinel: Address, timeout: float) -> Address | None:
        connection = new_connection(self._reached_by, timeout, sentinel)
        try:
            connection.connect()
            found = plain(connection, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._master))
        finally:
            connection.disconnect()
        return (found[0].decode(), int(found[1])) if found else None

    def _go(self, address: Address, last: tuple[Address, ...]) -> None:
        host, port = address
        if not self._known or address != self.place:
            # A new dict: another thread may be making a connection from the old one.
            self._pool.connection_kwargs = self._pool.connection_kwargs | {
                "host": host,
                "port": port,
            }
        if last:
            self._sentinels = (*(each for each in self._sentinels if each not in last), *last)
        self._known = True
        self._due = time.monotonic() + INTERVAL_S
        if self._silent:
            self._silent = False
            logger.info(
                "The sentinels answer again: the primary %r is %s:%s", self._master, host, port
            )

    def _missing(
        self, silent: dict[Address, redis.RedisError], *, unknown: bool
    ) -> redis.RedisError:
        if unknown:
            msg = (
                f"the sentinels watch no primary {self._master!r}, which the transport option master_name of"
                " semaphore_url names"
            )
            return NoSuchPrimary(msg)
        tried = "; ".join(f"{host}:{port}: {said(error)}" for (host, port), error in silent.items())
        return NoSentinel(f"no sentinel answers ({tried})")

    def _report(self, missing: redis.RedisError) -> None:
        if not self._known:
            raise missing
        # The primary may well answer while the sentinels do not.
        if not self._silent:
            logger.warning("A failover of the store would not be noticed: %s", missing)
        self._silent = True
