"""Check the tasks of an app when a worker starts: raise for errors, and warn of what may be one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from celery.app.routes import MapRoute
from kombu.entity import Queue

from ..core.wait_policy import OnSaturated
from ..errors import ConfigurationError
from ..settings import Settings
from ..task.misspelt import misspelt
from ..task.options import Options
from ..task.protocols import BoundTask
from ..task.unlimited import unlimited_of
from .messages.broker import is_amqp
from .messages.fanout import is_fanout


def check_tasks(tasks: Iterable[BoundTask], settings: Settings, *, prefork: bool) -> None:
    """Raise ``ConfigurationError`` for the first task that would not be limited as it declares."""
    for error in errors_of(tasks, settings, prefork=prefork):
        raise error


def errors_of(
    tasks: Iterable[BoundTask], settings: Settings, *, prefork: bool
) -> Iterator[ConfigurationError]:
    """Yield what is wrong with each task that would not be limited as it declares."""
    known = list(tasks)
    yield from unlimited_of(known)
    for task in known:
        options = _options_of(task)
        if options is None:
            continue
        if (why := _why_no_fanout(task)) is not None:
            yield ConfigurationError(why)
        if options.terminates(settings) and not prefork:
            msg = (
                f"task {task.name}: on_lost='terminate' needs the prefork pool; use on_lost='warn'."
            )
            yield ConfigurationError(msg)


def _options_of(task: BoundTask) -> Options | None:
    """Return the options of a task; None if it is not limited, as any task of another class."""
    options: Options | None = getattr(task, "semaphore_options", None)
    return options


def _why_no_fanout(task: BoundTask) -> str | None:
    """Say why the route of a task is wrong; a message that a fanout exchange brings all the same fails when it runs."""
    queue = _declared_queue(task)
    if queue is None or not is_fanout(queue) or is_amqp(task.app):
        return None
    return (
        f"task {task.name} is routed to {queue.alias or queue.name!r}, a queue of a fanout exchange: a limited task cannot"
        " come this way, because this broker keeps no queue to which its message could go back when it must"
        " wait. Route it to a queue for each worker, or let a task without a limit come this way and send the"
        " limited one."
    )


def _declared_queue(task: BoundTask) -> Any:
    """Return the queue that the task or a table of routes names, else the default one; None if it is unknown."""
    app, named = task.app, getattr(task, "queue", None)
    for router in app.amqp.router.routes:
        if named is None and isinstance(router, MapRoute):  # others may need a call's arguments
            named = (router(task.name) or {}).get("queue")
    if isinstance(named, Queue):
        return named
    queues, name = app.amqp.queues, named or app.conf.task_default_queue
    return queues.get(name) or queues.aliases.get(name)


def any_parks(tasks: Iterable[BoundTask], settings: Settings) -> bool:
    """Return whether any of these tasks is parked when it waits, wherever that is."""
    return OnSaturated.PARK in policies_of(tasks, settings)


def policies_of(tasks: Iterable[BoundTask], settings: Settings) -> set[OnSaturated]:
    """Return how these tasks wait or end without a permit."""
    options = [_options_of(task) for task in tasks]
    return {each.on_saturated_by(settings) for each in options if each}


def warnings_of(tasks: Iterable[BoundTask]) -> Iterator[str]:
    """Yield the warnings about these tasks."""
    ours = [task for task in tasks if hasattr(task, "semaphore_options")]
    for task in ours:
        yield from (f"task {task.name}: {found}" for found in misspelt(type(task)))
    limited = [task for task in ours if _options_of(task) is not None]
    yield from _disagreements(limited)


def _disagreements(tasks: Iterable[BoundTask]) -> Iterator[str]:
    # A semaphore with a key and one without are different resources, so their limits may differ.
    declared: dict[tuple[str, bool], dict[str, int]] = defaultdict(dict)
    for task in tasks:
        for limit in task.semaphore_options.limits:
            if not callable(limit.limit):
                declared[limit.semaphore, limit.key is not None][task.name] = limit.limit
    for (semaphore, _), limits in declared.items():
        if len(set(limits.values())) > 1:
            said = ", ".join(f"{name} limit={limit}" for name, limit in sorted(limits.items()))
            yield (
                f"semaphore {semaphore!r} is declared with different limits: {said}. The smallest declared recently"
                " is in force for all: give them the same limit, or separate semaphores."
            )
