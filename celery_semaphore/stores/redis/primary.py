"""Find the primary that sentinels watch, also after they have promoted another server."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from .finder import PAUSE_S, Address
from .sentinels import Sentinels, Silent

if TYPE_CHECKING:
    import redis
    from redis.connection import ConnectionPool

logger = logging.getLogger(__name__)

INTERVAL_S = 0.5  # from one question to the next, while calls are made ...
SILENT_S = 5.0  # ... or after one that no sentinel answered: they must not hold up each call


class PrimaryFinder:
    """Decides to which server a pool connects: the one that the sentinels name.

    After ``SENTINEL FAILOVER`` the former primary goes on as one for ten seconds or more, and so does one that was
    paused. It would admit tasks beside those that the new primary admits, so the sentinels are asked while calls are
    made, and connections to another server than they name are not used again.
    """

    seeks = True

    def __init__(self, pool: ConnectionPool, sentinels: Sentinels) -> None:
        self._pool = pool
        self._sentinels = sentinels
        self._timeout = pool.connection_kwargs["socket_timeout"]
        self._known = False
        self._silent = False
        self._due = 0.0  # monotonic time of the next question
        self._asked_at = 0.0  # monotonic time of the question with the answer that holds

    @property
    def place(self) -> Address:
        """The address of the primary."""
        given = self._pool.connection_kwargs
        return given["host"], given["port"]

    def leads_to(self, connection: Any) -> bool:
        """Return whether this connection leads to the primary."""
        return (connection.host, connection.port) == self.place

    def look(self) -> None:
        """Ask a sentinel before a call, if it is time.

        Raise ``NoSentinel`` or ``NoSuchPrimary`` if no primary is known yet.
        """
        now = time.monotonic()
        if now < self._due and self._known:
            return
        # First: no other thread asks meanwhile, no signal handler, and an exception delays the next question only.
        self._due = now + self._timeout
        ask = self._ask_one if self._known else self._ask_all
        if (
            not ask(now + self._timeout) and self._asked_at < now
        ):  # else another thread had an answer
            self._due = time.monotonic() + SILENT_S

    def follow(self, error: redis.RedisError, deadline: float) -> None:  # noqa: ARG002 - the finder of nodes needs it
        """Ask all sentinels after an error of the primary, and wait a moment if they name the same server."""
        before = self.place
        self._due = 0.0  # if there is no time for it now, the next call asks first
        if time.monotonic() < deadline:
            self._ask_all(deadline)
        if self.place == before:
            time.sleep(min(PAUSE_S, max(0.0, deadline - time.monotonic())))

    def explain(self, error: redis.RedisError) -> None:
        """Note at the error which server gave it."""
        if self._known:
            host, port = self.place
            error.add_note(
                f"{host}:{port}, the primary {self._sentinels.master!r} of the sentinels"
            )

    def _ask_one(self, deadline: float) -> bool:
        """Go where the first sentinel says that answers; return whether one did."""
        asked_at, silent = time.monotonic(), Silent()
        for _, named in self._sentinels.answers(deadline, silent):
            if named:
                self._go(named, asked_at)
                return True
        self._found_none(silent)
        return False

    def _ask_all(self, deadline: float) -> bool:
        """Go where most sentinels say: one that was restarted or is cut off may name a former primary.

        While they disagree, prefer a server that has not just failed. Those that agree are asked first from now on.
        """
        asked_at, silent = time.monotonic(), Silent()
        answers = [each for each in self._sentinels.answers(deadline, silent) if each[1]]
        if not answers:
            self._found_none(silent)
            return False
        failed = self.place if self._known else None
        votes = Counter(named for _, named in answers if named)
        elected = max(votes, key=lambda named: (votes[named], named != failed))
        self._go(elected, asked_at)
        self._sentinels.ask_last(*(sentinel for sentinel, named in answers if named != elected))
        return True

    def _go(self, address: Address, asked_at: float) -> None:
        if asked_at < self._asked_at:  # another thread has a newer answer
            return
        self._asked_at = asked_at
        if not self._known or address != self.place:
            # A new dict: another thread may be making a connection from the old one.
            given = {"host": address[0], "port": address[1]}
            self._pool.connection_kwargs = self._pool.connection_kwargs | given
        self._known = True
        self._due = time.monotonic() + INTERVAL_S
        if self._silent:
            self._silent = False
            text = "The sentinels answer again: the primary %r is %s:%s"
            logger.info(text, self._sentinels.master, *address)

    def _found_none(self, silent: Silent) -> None:
        """Raise if no primary is known; the one that is known may well answer while the sentinels do not."""
        missing = self._sentinels.missing(silent)
        if not self._known:
            raise missing
        if not self._silent:
            logger.warning("A failover of the store would not be noticed: %s", missing)
        self._silent = True
