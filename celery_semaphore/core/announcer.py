"""Announcer: tell all listeners what happens to permits, waits and messages, for logs, signals and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .events import Event

logger = logging.getLogger("celery_semaphore")


Listener = Callable[[Event], None]


class Announcer:
    """Calls every listener, in the process and the thread where the event happened.

    That thread renews all permits, or is an event loop, and a signal handler may have interrupted it: a listener must
    not block, take no lock, and not run code of users.
    An exception of a listener is logged only.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Add a listener; it is called in the thread where the event happened."""
        self._listeners.append(listener)

    def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s", type(event).__name__)
