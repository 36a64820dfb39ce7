"""HourlyWarnings: log what may happen with each task once an hour for each reason."""

from __future__ import annotations

import time
from logging import Logger

SILENCE_S = 3600.0  # between two warnings of one reason
MOST_REASONS = 1000  # reasons that are noted: a process may run for months


class HourlyWarnings:
    """Warns by a logger, once an hour for each reason; in between it writes lines for debugging only."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._warned: dict[str, float] = {}

    def warn(self, reason: str, text: str) -> None:
        """Log a text, as a warning if there was none of this reason for an hour."""
        now = time.monotonic()
        if now - self._warned.get(reason, -SILENCE_S) < SILENCE_S:
            self._logger.debug(text)
            return
        self._warned.pop(reason, None)
        self._warned[reason] = now
        if len(self._warned) > MOST_REASONS:
            del self._warned[next(iter(self._warned))]  # the oldest
        self._logger.warning("%s (others of this kind are not logged for an hour)", text)
