"""Find out whether an event loop runs here, which a wait would stop."""

from __future__ import annotations

import sys
import threading

from ..errors import SemaphoreError


def is_in_event_loop() -> bool:
    """Return whether an asyncio loop runs in this thread and greenlet, so that a wait would stop it."""
    asyncio = sys.modules.get("asyncio")  # if it is not imported, no loop runs
    try:
        loop = asyncio and asyncio.get_running_loop()
    except RuntimeError:
        return False
    # A greenlet also sees the loop of another greenlet in the same thread, which it would not stop.
    here = threading.get_ident()
    return loop is not None and getattr(loop, "_thread_id", here) == here


def check_loop() -> bool:
    """Raise where no event loop of asyncio runs."""
    if not is_in_event_loop():
        msg = "AsyncSemaphore waits in an asyncio loop, and none runs here"
        raise SemaphoreError(msg)
    return True
