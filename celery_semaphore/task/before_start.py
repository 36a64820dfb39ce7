"""BeforeStart: acquire the permit also of a task that Celery runs past our tracer, such as an eager one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from .running import begin

if TYPE_CHECKING:
    from .protocols import BoundTask

Start = Callable[["BoundTask", str, Any, Any], None]
NAME = "before_start"


def with_permit(before_start: Start) -> Start:
    """Wrap ``before_start``, so that it runs after the permit was acquired."""

    @functools.wraps(before_start)
    def acquire_then_start(task: BoundTask, task_id: str, args: Any, kwargs: Any) -> None:
        begin(task, args, kwargs)
        before_start(task, task_id, args, kwargs)

    return acquire_then_start


class BeforeStart:
    """The ``before_start`` of a limited task: it limits what a subclass defines, and what is assigned to the task.

    A plain attribute of the class would be hidden by the latter, and the task would run without a permit.
    """

    def __init__(self, before_start: Start) -> None:
        self._of_class = with_permit(before_start)
        # An attribute of this class alone: super().before_start must not find what was assigned to a subclass's task.
        self._assigned = f"semaphore_before_start_{id(self)}"

    def __get__(self, task: BoundTask | None, owner: type | None = None) -> Any:
        if task is None:
            return self._of_class
        if NAME in task.__dict__:  # it was assigned before the class had this descriptor
            self.__set__(task, task.__dict__.pop(NAME))
        return task.__dict__.get(self._assigned) or MethodType(self._of_class, task)

    def __set__(self, task: BoundTask, assigned: Callable[[str, Any, Any], None] | None) -> None:
        def start(_: BoundTask, *call: Any) -> None:
            if assigned is not None:  # Celery allows None
                assigned(*call)

        task.__dict__[self._assigned] = MethodType(with_permit(start), task)

    def __delete__(self, task: BoundTask) -> None:
        if task.__dict__.pop(self._assigned, None) is None:
            raise AttributeError(NAME)
