"""Concurrency limits for Celery tasks, across a whole cluster, that hold when processes die."""

from .core.limit import Limit
from .errors import (
    PermitLost,
    SemaphoreError,
    SemaphoreSaturated,
    SemaphoreTimeout,
    StoreUnavailable,
)
from .worker.signals import permit_acquired, permit_lost, permit_released, task_saturated
from .worker.task import LimitedTask, LimitedTaskMixin

__all__ = [
    "Limit",
    "LimitedTask",
    "LimitedTaskMixin",
    "PermitLost",
    "SemaphoreError",
    "SemaphoreSaturated",
    "SemaphoreTimeout",
    "StoreUnavailable",
    "permit_acquired",
    "permit_lost",
    "permit_released",
    "task_saturated",
]
