"""Skip resources that cannot be reaped."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import ResourceBusy, SemaphoreError
from .connection import is_one_resources, took_too_long

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)


SLOW_IN_A_ROW = 2  # calls that the server cut off: then it is slow for all resources


class Broken:
    """Skip them, so that the others are reaped; log each once, until it can be reaped again."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._slow_in_a_row = 0

    @contextmanager
    def passed_over(self, name: str) -> Iterator[None]:
        try:
            yield
        except SemaphoreError as error:
            if isinstance(error, ResourceBusy) or not is_one_resources(error):
                raise
            if took_too_long(error):
                self._slow_in_a_row += 1
                if self._slow_in_a_row >= SLOW_IN_A_ROW:
                    raise
            if name not in self._told:
                self._told.add(name)
                logger.error(  # noqa: TRY400 - one line is enough
                    "%r cannot be reaped, so its waits stay in line: %s. "
                    "Repair or delete its rows in the store; other resources are reaped.",
                    name,
                    error,
                )
        else:
            self._told.discard(name)
            self._slow_in_a_row = 0
