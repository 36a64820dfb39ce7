"""Reach the code that runs tasks, from the class of a task; no other module of this folder imports it.

A process that only sends tasks loads none of it: it would be most of what this library adds to the start of a web
server. A worker loads all of it before it forks, with its first bootstep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .request_permit import PERMIT

if TYPE_CHECKING:
    from ..worker.pool_process.permit import TaskPermit
    from .protocols import BoundTask, TaskContext, Trace


def begin(task: BoundTask, args: Any, kwargs: Any) -> None:
    """Acquire the permit of a task that comes without one, announce it, or raise what ends this attempt."""
    from ..worker.pool_process.gate import begin as begin_here

    begin_here(task, args, kwargs)


def with_acquire(task: BoundTask, trace: Trace) -> Trace:
    """Return a tracer that acquires the task's permit, and then calls Celery's tracer."""
    from ..worker.pool_process import tracer

    return tracer.with_acquire(task, trace)


def permit_of(request: TaskContext) -> TaskPermit | None:
    """Return the permit of a running task's request; None before it has one."""
    if PERMIT not in request.__dict__:
        return None
    from ..worker.pool_process import permit

    return permit.permit_of(request)


def limited(request: Any) -> Any:
    """Return a subclass of a task's own ``Request`` class with our mixin, or the class itself if it has that."""
    from kombu.utils.imports import symbol_by_name

    from ..worker.main_process.request import LimitedRequestMixin

    base = symbol_by_name(request)
    if issubclass(base, LimitedRequestMixin):
        return request
    return type("LimitedRequest", (LimitedRequestMixin, base), {"__module__": __name__})
