"""HourlyWarnings: log what may happen with each task once an hour for each reason."""

from __future__ import annotations

import time
from logging import Logger

SILENCE_S = 3600.0  # between two warnings of one reason


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
        self._warned[reason] = now
        self._logger.warning("%s (others of this kind are logged in an hour again)", text)
