"""Support users' tests: fixtures for pytest, and a store in memory."""

from __future__ import annotations

from ..stores.memory import MemoryStore
from ..stores.options import StoreOptions
from .clock import Clock
from .local import LocalStore, local_store, unlimited

__all__ = ["Clock", "LocalStore", "MemoryStore", "StoreOptions", "local_store", "unlimited"]
