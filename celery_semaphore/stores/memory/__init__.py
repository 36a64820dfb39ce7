"""Keep permits in one process: for tests, and as the readable reference for all stores."""

from __future__ import annotations

from ..options import StoreOptions
from .store import MemoryStore

__all__ = ["MemoryStore", "from_url"]


def from_url(url: str, options: StoreOptions) -> MemoryStore:
    """Make a store from ``memory://``; each call makes a separate one."""
    del url
    return MemoryStore(options)
