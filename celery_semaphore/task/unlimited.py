"""Find tasks that declare a semaphore and would run without a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..core.limit import Limit
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from .protocols import BoundTask

OURS = "semaphore_options"  # an attribute of each class that comes from our mixin


def refuse_unlimited(tasks: Iterable[BoundTask]) -> None:
    """Raise ``ConfigurationError`` for the first task that declares a semaphore and is not limited."""
    for error in unlimited_of(tasks):
        raise error


def unlimited_of(tasks: Iterable[BoundTask]) -> Iterator[ConfigurationError]:
    """Yield what is wrong with each task that declares a semaphore and is not limited."""
    for task in tasks:
        fault: ConfigurationError | None = getattr(task, "semaphore_fault", None)
        if fault is not None:
            yield fault
        elif _declares(task) and getattr(task, OURS, None) is None:
            yield ConfigurationError(why_unlimited(task))


def why_unlimited(task: BoundTask) -> str:
    """Say why a task that declares a semaphore is not limited, and what to write instead."""
    seems = f"task {task.name}: semaphore={task.semaphore!r} is set, but the task is not limited:"
    if not hasattr(task, OURS):
        return (
            f"{seems} its class does not come from LimitedTask. Declare it with base=LimitedTask, or make all"
            ' tasks of the app so: Celery(task_cls="celery_semaphore:LimitedTask").'
        )
    deaf = next(cls for cls in type(task).__mro__ if "on_bound" in vars(cls))
    return (
        f"{seems} the on_bound of its class {deaf.__qualname__} does not call super().on_bound(app), which"
        " limits it."
    )


def _declares(task: BoundTask) -> bool:
    """Return whether a task declares a semaphore: the attribute of another library's task may be something else."""
    declared: Any = getattr(task, "semaphore", None)
    if hasattr(task, OURS):
        return declared is not None
    if isinstance(declared, (list, tuple)):
        return any(isinstance(each, Limit) for each in declared)
    return isinstance(declared, str)
