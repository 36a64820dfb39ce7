"""Doubts: what is wrong in the tasks of an app, and what only looks so. A worker says it at its start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ..core.saturation import OnSaturated
from ..errors import ConfigurationError
from ..settings import Settings
from .spelling import misspelt


def check_tasks(tasks: Iterable[Any], settings: Settings, *, prefork: bool) -> None:
    """Raise ``ConfigurationError`` for a task that would not be limited as it says."""
    for task in tasks:
        if (fault := getattr(task, "semaphore_fault", None)) is not None:
            raise fault
        if getattr(task, "semaphore", None) is None:
            continue
        options = getattr(task, "semaphore_options", None)
        if options is None:
            msg = (
                f"task {task.name}: semaphore={task.semaphore!r} is set, but the task is not limited:"
                " its class must come from LimitedTask, and its on_bound must call super(). Declare it with"
                ' base=LimitedTask, or make all tasks of the app so: Celery(task_cls="celery_semaphore:LimitedTask").'
            )
            raise ConfigurationError(msg)
        options.patience(settings)
        if options.terminates(settings) and not prefork:
            msg = (
                f"task {task.name}: on_lost='terminate' needs the prefork pool; use on_lost='warn'."
            )
            raise ConfigurationError(msg)


def any_parks(tasks: Iterable[Any], settings: Settings) -> bool:
    """Whether any of these tasks is parked when it waits."""
    options = [getattr(task, "semaphore_options", None) for task in tasks]
    return any(each.patience(settings).on_saturated is OnSaturated.PARK for each in options if each)


def doubts(tasks: Iterable[Any], settings: Settings) -> Iterator[str]:
    """What to warn of."""
    ours = [task for task in tasks if hasattr(task, "semaphore_options")]
    for task in ours:
        yield from (f"task {task.name}: {found}" for found in misspelt(type(task)))
    limited = [task for task in ours if task.semaphore_options is not None]
    yield from _disagreements(limited)
    yield from _mixed_waits(limited, settings)


def _mixed_waits(tasks: Iterable[Any], settings: Settings) -> Iterator[str]:
    waits: dict[str, dict[str, OnSaturated]] = defaultdict(dict)
    for task in tasks:
        for limit in task.semaphore_options.limits:
            patience = task.semaphore_options.patience(settings)
            waits[limit.semaphore][task.name] = patience.on_saturated
    for semaphore, policies in waits.items():
        if {OnSaturated.PARK, OnSaturated.REQUEUE} <= set(policies.values()):
            said = ", ".join(f"{name} on_saturated={how}" for name, how in sorted(policies.items()))
            yield (
                f"semaphore {semaphore!r} is waited for in different ways: {said}. A permit is kept unused for who"
                " comes again by itself, or goes to the parked if that is late: give them the same on_saturated."
            )


def _disagreements(tasks: Iterable[Any]) -> Iterator[str]:
    # With a key and without one are different resources, whose limits do not meet.
    declared: dict[tuple[str, bool], dict[str, int]] = defaultdict(dict)
    for task in tasks:
        for limit in task.semaphore_options.limits:
            if not callable(limit.limit):
                declared[limit.semaphore, limit.key is not None][task.name] = limit.limit
    for (semaphore, _), limits in declared.items():
        if len(set(limits.values())) > 1:
            said = ", ".join(f"{name} limit={limit}" for name, limit in sorted(limits.items()))
            yield (
                f"semaphore {semaphore!r} is declared with different limits: {said}. Whichever asked last"
                " decides for all: give them the same limit, or semaphores of their own."
            )
