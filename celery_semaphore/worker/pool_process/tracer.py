"""Acquire the permit before Celery's tracer of a limited task, which a task without a permit never enters.

In that function Celery sends ``task_prerun``, stores STARTED and reports how the task ended, and the packages that
trace tasks begin a span in it or around it. For all of them an attempt that entered it is a run.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from celery.app.task import Context

from ...task.protocols import BoundTask, Trace
from ..celery_internals import running_tasks
from ..messages.header_names import OUTCOME
from .gate import acquire_permit
from .postrun import release_unreleased
from .refused_attempt import Refused

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefusedInfo:
    """The part of an ``ExceptionInfo`` that the main process reads of a refusal."""

    exception: Refused


def with_acquire(task: BoundTask, trace: Trace) -> Trace:
    """Return a tracer that acquires the task's permit, and then calls Celery's tracer if there is one.

    Other packages wrap the tracer that Celery builds. This is the outermost function: they wrap before a task gets it.
    """

    def traced(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        context = Context(request or {}, args=args, kwargs=kwargs, called_directly=False)
        own = context.__dict__
        try:
            refused = _refusal(task, context, args, kwargs)
            if refused is not None:
                return RefusedInfo(refused), refused, 0.0, None
            return trace(uuid, args, kwargs, dict(own))
        finally:
            release_unreleased(task, own)

    return traced


def _refusal(task: BoundTask, context: Any, args: Any, kwargs: Any) -> Refused | None:
    """Acquire the permit and return None, or return the refusal; leave any other error to ``before_start``.

    Celery reports an error of ``before_start`` as a failure of the task.
    """
    running_tasks.push(task)
    task.request_stack.push(context)
    try:
        _in_django("close_old_connections")  # the server may have closed them since the last run
        acquire_permit(task, args, kwargs)
    except Refused as refused:
        refused.with_traceback(None)  # the frames would keep the task's arguments alive
        refused.__context__ = None
        _in_django("connections.close_all")  # as Celery does after each run
        return refused
    except Exception as error:  # noqa: BLE001 - before_start raises it
        context.__dict__[OUTCOME] = error
    finally:
        running_tasks.pop()
        task.request_stack.pop()
    return None


def _in_django(call: str) -> None:
    """Call a function of Django's database layer, if this process uses it.

    A callable of the limit may use Django's models before ``task_prerun`` and without ``task_postrun``, at which Celery
    closes connections.
    """
    database = sys.modules.get("django.db")
    if database is None or "DJANGO_SETTINGS_MODULE" not in os.environ:
        return
    try:
        attrgetter(call)(database)()
    except Exception:
        logger.exception("a connection of Django could not be closed")
