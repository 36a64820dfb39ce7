"""The app under test, with tasks whose ends other packages want to hear of."""

from __future__ import annotations

from typing import Any

from celery import Task

from celery_semaphore import LimitedTaskMixin

from .app import app

__all__ = ["app"]


class Locking(LimitedTaskMixin, Task):
    """A task class that gives a lock back in its end hooks, as celery-singleton's and celery-once's do."""

    abstract = True

    def release_lock(self, task_args: Any = None, task_kwargs: Any = None) -> None:
        print(f"unlocked {self.name} of {task_args} {task_kwargs}", flush=True)  # noqa: T201

    def on_failure(self, exc: Exception, task_id: str, *_: Any) -> None:
        print(f"on_failure of {self.name}: {type(exc).__name__}", flush=True)  # noqa: T201

    def after_return(self, status: str, retval: Any, task_id: str, *_: Any) -> None:
        print(f"after_return of {self.name}: {status}", flush=True)  # noqa: T201


ONE: dict[str, Any] = {"base": Locking, "semaphore": "one", "limit": 1}


@app.task(name="drops", on_saturated="drop", **ONE)
def drops(tenant: int) -> None: ...


@app.task(name="fails", on_saturated="fail", **ONE)
def fails(tenant: int) -> None: ...


@app.task(name="times_out", wait_timeout=0.3, **ONE)
def times_out(tenant: int) -> None: ...


@app.task(name="waits", **ONE)
def waits(tenant: int) -> None: ...
