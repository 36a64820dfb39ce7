"""Make what is queued at the end of the process, for a second at most."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable

EXIT_TIMEOUT_S = 1.0

_flushes: list[Callable[[float], None]] = []


def flush_at_exit(flush: Callable[[float], None]) -> Callable[[float], None]:
    """Call ``flush`` at the end of the process, before those given earlier, with the monotonic time to wait until."""
    _flushes.append(flush)
    return flush


def _flush() -> None:
    until = time.monotonic() + EXIT_TIMEOUT_S
    for flush in reversed(_flushes):
        flush(until)


atexit.register(_flush)
