"""Make what is queued at the end of the process, for a second at most."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from types import ModuleType

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


def _prepare() -> None:
    # Not imported here: most programs do without it, and then have no child of that kind.
    if util := sys.modules.get("multiprocessing.util"):
        _flush_in_children(util)


@cache
def _flush_in_children(util: ModuleType) -> None:
    """Flush where a forked process of ``multiprocessing`` ends, too: it skips ``atexit``."""

    def in_child(_: object) -> None:
        util.Finalize(None, _flush, exitpriority=-1)  # after its own children have ended

    # Not in the parent: such a process begins by forgetting what its parent had registered.
    util.register_after_fork(_flush, in_child)


def _prepare_child() -> None:
    """Flush at the end of a child of ``multiprocessing`` that imports this late, as those of its fork server do."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        sys.modules["multiprocessing.util"].Finalize(None, _flush, exitpriority=-1)


atexit.register(_flush)
os.register_at_fork(before=_prepare)
_prepare()  # a child imports the module of its target before it begins, and then forgets what is not registered so
_prepare_child()
