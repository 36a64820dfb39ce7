"""The pool's line: requests that wait for a free process, those with a grant before all others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any


def goes_first(c: Any, hand_over: Callable[[], object]) -> None:
    """Hand one request to the pool; if no process is free, only those that have a grant too are before it."""
    processes = c.controller.semaphore
    # No other way in; where there is no such line, each request goes to the pool at once.
    waiting: Any = () if processes is None else processes._waiting  # noqa: SLF001
    before = len(waiting)
    hand_over()
    if len(waiting) > before:
        granted = takewhile(lambda each: _has_grant(c, each[1][0]), waiting)
        waiting.insert(sum(1 for _ in granted), waiting.pop())


def _has_grant(c: Any, request: Any) -> bool:
    """Tell whether it came by a granted queue, which has a channel of its own, or was held until it was granted."""
    return request.message.channel is not c.task_consumer.channel or getattr(
        request, "granted", False
    )
