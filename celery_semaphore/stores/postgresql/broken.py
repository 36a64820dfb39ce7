"""Resources at which each look fails."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import SemaphoreError
from .connection import is_busy, is_one_resources, took_too_long

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)


SLOW_IN_A_ROW = 2  # looks that were cut off: then the server is slow, and so is each further look


class Broken:
    """Leaves them out, or no other resource would be reaped; tells each once, until a look succeeds."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._slow_in_a_row = 0

    @contextmanager
    def passed_over(self, name: str) -> Iterator[None]:
        try:
            yield
        except SemaphoreError as error:
            if is_busy(error) or not is_one_resources(error):
                raise
            if took_too_long(error):
                self._slow_in_a_row += 1
                if self._slow_in_a_row >= SLOW_IN_A_ROW:
                    raise
            if name not in self._told:
                self._told.add(name)
                logger.error(  # noqa: TRY400 - one line says it all
                    "%r cannot be reaped, so what waits for it stays where it is: %s. "
                    "Mend or delete its rows in the store; other resources are reaped.",
                    name,
                    error,
                )
        else:
            self._told.discard(name)
            self._slow_in_a_row = 0
