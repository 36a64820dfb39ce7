"""Concurrency limits for Celery tasks, across a whole cluster, that hold when processes die."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.limit import Limit
from .errors import PermitLost, SemaphoreError, SemaphoreSaturated, SemaphoreTimeout
from .worker.signals import permit_acquired, permit_lost, permit_released, task_saturated
from .worker.task import LimitedTask, LimitedTaskMixin

if TYPE_CHECKING:
    from .semaphore import Semaphore

__all__ = [
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

if not TYPE_CHECKING:  # or every misspelt name would be one

    def __getattr__(name: str) -> Any:
        """Import what a process that only sends tasks does not need when it is used."""
        if name == "Semaphore":
            return import_module(".semaphore", __name__).Semaphore
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
