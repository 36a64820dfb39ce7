"""Add this library's bootsteps to an app's workers, also where tasks only seem to be limited."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import worker_init

from .unlimited import unlimited_of

# These are names, so that a process that only sends tasks does not import the worker's code.
STEPS = {
    "worker": "celery_semaphore.worker.main_process.bootstep:SemaphoreStep",
    "consumer": "celery_semaphore.worker.main_process.bootstep:SemaphoreConsumerStep",
}


def add_steps(app: Celery) -> None:
    """Add the bootsteps to this app's workers; workers that run already do not get them."""
    for blueprint, step in STEPS.items():
        app.steps[blueprint].add(step)


def watch_starts() -> None:
    """Let no worker of this process start with a task that declares a semaphore and is not limited.

    Such a task adds no bootstep, since its class is not ours. Celery's command line calls this with each command.
    """
    worker_init.connect(_check, dispatch_uid="celery_semaphore.task.steps")


def _check(sender: Any, **_: Any) -> None:
    # An error that a receiver raises is only logged: a bootstep must raise it.
    if any(unlimited_of(sender.app.tasks.values())):
        add_steps(sender.app)
