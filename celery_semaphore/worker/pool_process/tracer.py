"""Wrap Celery's tracer of a limited task, so that a refused attempt leaves it before Celery reports it.

Celery takes apart the traceback of each exception of a task, twice for an ``Ignore``, with the position of each
instruction of its own long function. It sends some 30 kB of that to the main process. When many tasks are refused,
this costs more than all the rest, and it is never read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..messages.headers import EXITS_EARLY
from ..protocols import BoundTask
from .refused import Refused

REFUSED = "semaphore_refused"  # attribute of a SystemExit that stands for a refusal
Trace = Callable[..., tuple[Any, Any, float, str | None]]


@dataclass(frozen=True, slots=True)
class RefusedInfo:
    """The part of an ``ExceptionInfo`` that the main process reads of a refusal."""

    exception: Refused


def exit_early(task: BoundTask, refused: Refused) -> None:
    """Leave the tracer if it is one of ours."""
    if EXITS_EARLY in task.request.__dict__:
        # SystemExit passes the tracer, which reports every ``Exception``, and still unwinds the stack. Error trackers
        # such as Sentry ignore SystemExit, unlike other classes.
        way_out = SystemExit()
        way_out.__dict__[REFUSED] = refused
        raise way_out from None


def with_early_exit(trace: Trace) -> Trace:
    """Return the tracer with an early exit for refusals."""

    def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        try:
            return trace(uuid, args, kwargs, {**(request or {}), EXITS_EARLY: True})
        except SystemExit as left:
            if (refused := left.__dict__.get(REFUSED)) is None:
                raise
            refused.with_traceback(None)  # the frames would keep the task's arguments alive
            refused.__context__ = None
            return RefusedInfo(refused), refused, 0.0, None

    return traced
