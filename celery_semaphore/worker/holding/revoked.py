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
        self.unchecked: list[HeldMessage] = []  # of the check that has begun
        self._checked_at = 0.0

    def among(self, messages: Collection[HeldMessage], most: int) -> Iterator[HeldMessage]:
        """Yield the messages of revoked tasks, ``most`` of them; Celery then tells its backend and its signals."""
        now = time.monotonic()
        if not self.unchecked:
            if not (state.revoked or state.revoked_stamps) or now - self._checked_at < REVOKED_S:
                return
            self._checked_at = now
            self.unchecked = list(messages)
        while self.unchecked and most:
            held = self.unchecked.pop()
            if held in messages and _is_revoked(held):
                most -= 1
                yield held


def _is_revoked(held: HeldMessage) -> bool:
    request = held.request
    stamped = state.revoked_stamps and request.stamped_headers
    try:
        return bool((request.id in state.revoked or stamped) and request.revoked())
    except Exception:
        logger.exception("task %s was revoked, but could not be ended", request.id)
        return False
