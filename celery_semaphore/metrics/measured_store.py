"""MeasuredStore: announce how long the store of a worker's main process took for each call."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, cast

from ..core.events import Event, StoreCallEvent
from ..core.store import Store
from ..settings import Settings

# Not ``acquire``: the note of a permit tells how long it took, from the process that ran the task.
OPERATIONS = frozenset(
    {
        *("check", "attach", "renew", "release", "reap", "end", "promote", "take", "sent"),
        *("ask", "sleep", "name", "durability", "consume", "unconsumed", "brokers", "declare"),
    }
)


def is_on(settings: Settings) -> bool:
    """Return whether a worker counts at all: for Prometheus, or for OpenTelemetry if that is installed."""
    return settings.metrics_port > 0 or has_opentelemetry()


def has_opentelemetry() -> bool:
    """Return whether the API of OpenTelemetry can be imported."""
    try:
        return find_spec("opentelemetry.metrics") is not None
    except ModuleNotFoundError:
        return False


class MeasuredStore:
    """A store that announces each call.

    One wrapper does it for all stores, those of other authors included. Lines in each method of each store would also
    run in pool processes, where nothing may be counted, and if metrics are off.
    """

    def __init__(self, store: Store, announce: Callable[[Event], None]) -> None:
        self._store = store
        self._announce = announce

    @property
    def epoch(self) -> int | None:
        """The newest epoch that this client has seen."""
        return self._store.epoch

    @epoch.setter
    def epoch(self, epoch: int | None) -> None:
        self._store.epoch = epoch

    def __getattr__(self, name: str) -> Any:
        """Return the store's attribute; Python calls this once for each operation, which is kept."""
        attribute = getattr(self._store, name)
        if name in OPERATIONS:
            attribute = self.__dict__[name] = partial(self._call, name, attribute)
        return attribute

    def _call(self, operation: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        since, failed = time.perf_counter(), True
        try:
            answer = call(*args, **kwargs)
            failed = False
        finally:
            took = time.perf_counter() - since
            self._announce(StoreCallEvent(operation, took, failed))
        return answer


def measured(store: Store, announce: Callable[[Event], None]) -> Store:
    """Return the store with its calls measured."""
    return cast("Store", MeasuredStore(store, announce))
