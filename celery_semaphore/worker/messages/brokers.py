"""Brokers: know the broker of this process by its name, and which others share its store.

A parked message belongs to the broker that it came from (K4): only a process that can reach that one sends it. How it
fails:

* Two brokers get one name, by ``semaphore_broker``: then each may get the other's tasks. So the name is derived from
  the whole address if it is not given.
* One broker gets two names, for its workers reach it by different addresses: each name's tasks are sent by its own
  workers, and stay once these are gone. So a worker that for ``ALONE_S`` saw no other name in the store takes all.
* All workers stop for a night, and those of one broker start first: the store has forgotten the other name, and the
  worker begins to count only now. Those of the other name have ``ALONE_S`` to say it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cached_property

from celery import Celery

from ...core.store import Store
from ...settings import Settings
from .broker import name_of_broker
from .parked import Parked

logger = logging.getLogger(__name__)

ALONE_S = 600.0  # how long to see no other broker, before its messages are taken; workers name theirs once a minute


class Brokers:
    """Knows the broker of an app, and the others of its store."""

    def __init__(self, app: Celery, settings: Settings, store: Callable[[], Store]) -> None:
        self._app = app
        self._settings = settings
        self._store = store
        self._alone_since: float | None = None
        self._adopted: set[str] = set()  # other brokers with messages that this process sent

    @cached_property
    def own(self) -> str:
        """The name of the app's broker."""
        return self._settings.broker or name_of_broker(self._app)

    def others(self, *, consumes: bool) -> list[str]:
        """Return the other brokers of the store, in order; a process that ``consumes`` names its own there."""
        others = self._store().brokers(self.own if consumes else "") - {self.own}
        if others or not consumes:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        return sorted(others)

    @property
    def of_outbox(self) -> str | None:
        """The broker of the messages that this process takes: its own, or None for any if it has long been alone."""
        since = self._alone_since
        return None if since is not None and time.monotonic() - since >= ALONE_S else self.own

    def sends(self, parked: Parked, consumed: frozenset[str]) -> bool:
        """Return whether to send a message that was taken, by a process that consumes these queues.

        One of a broker that no worker names any more is sent only where its task is known, and its queue is consumed.
        """
        if parked.broker in ("", self.own):
            return True
        known = parked.queue in consumed and parked.headers.get("task") in self._app.tasks
        if known and self.of_outbox is None:
            if parked.broker not in self._adopted:
                self._adopted.add(parked.broker)
                logger.warning(
                    "parked tasks of broker %s are sent to %s: no worker has named the former for an hour",
                    parked.broker,
                    self.own,
                )
            return True
        logger.debug("a parked task of broker %s stays in the store", parked.broker)
        return False
