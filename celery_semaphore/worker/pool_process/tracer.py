"""Tracer: Celery's own for a limited task, but a refused attempt leaves it before it is reported.

Celery takes the traceback of whatever a task raises apart, twice for an ``Ignore``, with the position of each
instruction of its own long function, and sends some 30 kB of that to the main process. For a crowd that is
refused this costs more than all the rest, and nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..messages.headers import EXITS_EARLY
from .refusal import Refused

REFUSED = "semaphore_refused"  # of an exception that is none
Trace = Callable[..., tuple[Any, Any, float, str | None]]


@dataclass(frozen=True, slots=True)
class RefusedInfo:
    """As much of an ``ExceptionInfo`` as the main process reads of a refusal."""

    exception: Refused


def exit_early(task: Any, refused: Refused) -> None:
    """Leave the tracer if it is one of ours."""
    if EXITS_EARLY in task.request.__dict__:
        # Past the tracer, which reports every ``Exception``; what must be undone is undone on the way. Of all others
        # tools that watch tasks, such as Sentry's, take this very class for no error.
        way_out = SystemExit()
        way_out.__dict__[REFUSED] = refused
        raise way_out from None


def with_early_exit(trace: Trace) -> Trace:
    """The tracer, with a short way out."""

    def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        try:
            return trace(uuid, args, kwargs, {**(request or {}), EXITS_EARLY: True})
        except SystemExit as left:
            if (refused := left.__dict__.get(REFUSED)) is None:
                raise
            refused.with_traceback(None)  # its frames would keep the task's arguments alive
            refused.__context__ = None
            return RefusedInfo(refused), refused, 0.0, None

    return traced
