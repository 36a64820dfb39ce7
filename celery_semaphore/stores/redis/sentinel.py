"""Notice that the sentinels have made another server the primary."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

import redis

from .connection import said

if TYPE_CHECKING:
    from redis.sentinel import SentinelConnectionPool

logger = logging.getLogger(__name__)

INTERVAL_S = 0.5  # from one question to the next ...
TIMES = (
    10  # ... or so many times what the last one took: silent sentinels must not hold up each call
)


class PrimaryFinder:
    """Asks the sentinels, while calls are made, which server is the primary.

    After ``SENTINEL FAILOVER`` the former primary goes on as one for some ten seconds, until a sentinel makes it a
    replica, and so does one that was paused. A call over a connection that is still open would be admitted there
    beside those that the new primary admits.
    """

    def __init__(self, pool: SentinelConnectionPool) -> None:
        self._pool = pool
        self._address: tuple[str, int] | None = None
        self._due = 0.0  # monotonic time
        self._asking = 0  # the process in which a thread asks
        self._silent = False

    def moved(self) -> bool:
        """Return whether another server is the primary than before; open connections lead to the former one."""
        # Another thread asks, or this one did when a signal arrived: redis-py's lock would never be free.
        if time.monotonic() < self._due or self._asking == os.getpid():
            return False
        self._asking = os.getpid()
        began = time.monotonic()
        try:
            return self._ask()
        finally:
            now = time.monotonic()
            self._due = now + max(INTERVAL_S, TIMES * (now - began))
            self._asking = 0

    def _ask(self) -> bool:
        try:
            address: tuple[str, int] = self._pool.get_master_address()  # type: ignore[no-untyped-call]
        except redis.RedisError as error:
            # The primary may well answer while the sentinels are gone.
            if not self._silent:
                logger.warning(
                    "The sentinels name no primary, so a failover is not noticed: %s", said(error)
                )
            self._silent = True
            return False
        self._silent = False
        moved = address != self._address
        self._address = address
        return moved
