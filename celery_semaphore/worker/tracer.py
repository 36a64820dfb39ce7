"""Tracer: Celery's own for a limited task, but a refused attempt leaves it before it is reported.

Celery takes the traceback of whatever a task raises apart, twice for an ``Ignore``, with the position of each
instruction of its own long function, and sends some 30 kB of that to the main process. For a crowd that is
refused this costs more than all the rest, and nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .refusal import Refused

LEAVES = "semaphore_leaves"  # of a request whose tracer lets a refusal out
Trace = Callable[..., tuple[Any, Any, float, str | None]]


class Leave(BaseException):
    """Out of the tracer, which reports every ``Exception``; what must be undone is undone on the way."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


@dataclass(frozen=True, slots=True)
class RefusedInfo:
    """As much of an ``ExceptionInfo`` as the main process reads of a refusal."""

    exception: Refused


def leave(task: Any, refused: Refused) -> None:
    """Leave the tracer if it is one of ours."""
    if LEAVES in task.request.__dict__:
        raise Leave(refused) from None


def letting_out(trace: Trace) -> Trace:
    """The tracer, with a short way out."""

    def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        try:
            return trace(uuid, args, kwargs, {**(request or {}), LEAVES: True})
        except Leave as left:
            # Its frames would keep the task's arguments alive.
            refused = left.refused.with_traceback(None)
            refused.__context__ = None
            return RefusedInfo(refused), refused, 0.0, None

    return traced
