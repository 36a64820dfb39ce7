"""Concurrency limits for Celery tasks, across a whole cluster, that hold when processes die."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .async_semaphore import AsyncSemaphore
    from .core.limit import Limit
    from .errors import PermitLost, SemaphoreError, SemaphoreSaturated, SemaphoreTimeout
    from .ops.inspector import Inspector
    from .semaphore import Semaphore
    from .task.limited_task import LimitedTask, LimitedTaskMixin
    from .task.signals import permit_acquired, permit_lost, permit_released, task_saturated
    from .version import __version__ as __version__

__all__ = [
    "AsyncSemaphore",
    "Inspector",
    "Limit",
    "LimitedTask",
    "LimitedTaskMixin",
    "PermitLost",
    "Semaphore",
    "SemaphoreError",
    "SemaphoreSaturated",
    "SemaphoreTimeout",
    "permit_acquired",
    "permit_lost",
    "permit_released",
    "task_saturated",
]

_HOMES = {
    "core.limit": ["Limit"],
    "errors": ["PermitLost", "SemaphoreError", "SemaphoreSaturated", "SemaphoreTimeout"],
    "async_semaphore": ["AsyncSemaphore"],
    "ops.inspector": ["Inspector"],
    "semaphore": ["Semaphore"],
    "task.signals": ["permit_acquired", "permit_lost", "permit_released", "task_saturated"],
    "task.limited_task": ["LimitedTask", "LimitedTaskMixin"],
    "version": ["__version__"],
}

if not TYPE_CHECKING:  # else a type checker would accept every misspelt name

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used.

        Celery's command line and pytest import this package before a project's own modules. LimitedTask, if it were
        made then, would not know whether Django is used. And pytest runs without tasks need not import Celery.
        """
        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
                return value
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
