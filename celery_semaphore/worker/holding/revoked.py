"""Revoked: find the held messages of revoked tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator

from celery.worker import state

from .held_message import HeldMessage

logger = logging.getLogger(__name__)

REVOKED_S = 0.5  # between two checks


class Revoked:
    """Finds them now and then, as each held message must be looked at."""

    def __init__(self) -> None:
        self._checked_at = 0.0

    def among(self, messages: Collection[HeldMessage]) -> Iterator[HeldMessage]:
        """Yield the messages of revoked tasks, of which Celery then tells its backend and its signals."""
        now = time.monotonic()
        if not (state.revoked or state.revoked_stamps) or now - self._checked_at < REVOKED_S:
            return
        self._checked_at = now
        for held in list(messages):
            request = held.request
            stamped = state.revoked_stamps and request.stamped_headers
            try:
                if (request.id in state.revoked or stamped) and request.revoked():
                    yield held
            except Exception:
                logger.exception("task %s was revoked, but could not be ended", request.id)
