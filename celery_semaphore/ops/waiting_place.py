"""WaitingPlace: tell operators where waiting tasks lie, and why, as a worker would decide that starts here and now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.key import resource_name, semaphore_of
from ..core.store import Store
from ..core.wait_policy import OnSaturated
from ..settings import Settings
from ..worker.messages.brokers import Brokers
from ..worker.messages.parking_watch import ParkingWatch


class WaitingPlace:
    """Tells it of the semaphores of tasks that leave it open, by ``on_saturated="wait"``; of others it is known."""

    def __init__(self, app: Any, settings: Settings, store: Store) -> None:
        self._watch = ParkingWatch(
            app, settings, lambda: store, brokers=Brokers(app, settings, lambda: store)
        )
        self._open = frozenset(_open_semaphores(app.tasks.values(), settings))

    def of(self, resource: str) -> str | None:
        """Return a sentence, or None if the options of its tasks say where they wait."""
        return str(self._watch.current()) if semaphore_of(resource) in self._open else None

    def parks(self) -> bool:
        """Return whether tasks that leave it open are parked when they must wait."""
        return bool(self._open) and self._watch.current().parks

    def of_any(self) -> str | None:
        """Return the same for any semaphore of the app."""
        return str(self._watch.current()) if self._open else None


def _open_semaphores(tasks: Iterable[Any], settings: Settings) -> Iterable[str]:
    for task in tasks:
        options = getattr(task, "semaphore_options", None)
        if options and options.on_saturated_by(settings) is OnSaturated.WAIT:
            yield from (resource_name(limit.semaphore, None) for limit in options.limits)
