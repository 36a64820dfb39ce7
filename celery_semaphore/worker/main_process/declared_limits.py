"""DeclaredLimits: declare the limits of a worker's tasks in the store, also while no task runs.

A task with a key declares for all keys of its semaphore, and by its attempts for theirs. One whose limit is a callable
declares by its attempts alone. How it fails:

* The worker is killed, or paused: what it declared lapses with its windows (A4), and its tasks do not start.
* The store is away: the thread that keeps leases tries again soon, and the store admits no task meanwhile.
* The store forgets: it is in its grace for two thirds of a lease, and each worker declares three times in one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from shlex import quote
from typing import Any

from ...core.declared_limit import DeclaredLimit
from ...core.key import all_keys_of, names_of, resource_name
from ...core.limit import limits_of_tasks
from ...core.store import Store
from ..messages.hourly_warnings import HourlyWarnings

logger = logging.getLogger(__name__)


class DeclaredLimits:
    """Declares in the name of a worker, and warns where another limit is in force."""

    def __init__(self, tasks: Iterable[Any], worker: str) -> None:
        self.limits = limits_of(tasks)
        self._worker = worker
        self._warnings = HourlyWarnings(logger)

    def declare(self, store: Store) -> None:
        if self.limits:
            for resource, declared in store.declare(self.limits, self._worker).items():
                if declared.limit != self.limits[resource]:
                    self._warn(resource, declared)

    def _warn(self, resource: str, declared: DeclaredLimit) -> None:
        name, key = names_of(resource)
        of = f"semaphore {name!r}" if key is None else f"semaphore {name!r} at each key"
        limits = f"limit {self.limits[resource]} here, {declared.limit} declared by {declared.by}"
        self._warnings.warn(
            f"{resource} {declared.limit}",
            f"{of}: {limits}: the smallest declared recently is in force. Give it the same limit everywhere, or"
            " put one in force"
            f" with `celery -A your_app semaphore limit {quote(name)} N`",
        )


def limits_of(tasks: Iterable[Any]) -> dict[str, int]:
    """Return the smallest plain limit of each semaphore, by its resource, or by the name of all its keys.

    0 is for attempts to declare.
    """
    found: dict[str, int] = {}
    for limit in limits_of_tasks(tasks):
        if not callable(limit.limit) and limit.limit > 0:
            resource = resource_name(limit.semaphore, None)
            resource = resource if limit.key is None else all_keys_of(resource)
            found[resource] = min(limit.limit, found.get(resource, limit.limit))
    return found
