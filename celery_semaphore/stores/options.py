"""StoreOptions: the options of every store, each with its one default. Durations are in seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Ssl = Mapping[str, Any] | bool | None


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """The options of a store. ``transport_options`` and ``ssl`` have the form of Celery's broker settings."""

    prefix: str = "celery-semaphore"  # of every key in the store
    lease: float = 30.0  # how long a permit lives unrenewed: one length for the whole store
    take_up: float | None = None  # how long the grant of a sent message lasts; None: one lease
    timeout: float = 2.0  # of one answer of the store, and of a connect
    transport_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ssl: Ssl = field(default=None, repr=False)
    now: Callable[[], float] | None = None  # replaces the clock of the store, for tests only

    @property
    def grant_lease(self) -> float:
        """How long the grant of a sent message lasts."""
        return self.take_up or self.lease


DEFAULTS = StoreOptions()
