"""Keep permits in one process: for tests, and as the readable reference for all stores."""

from __future__ import annotations

from typing import Any

from .store import MemoryStore

__all__ = ["MemoryStore", "from_url"]


def from_url(
    url: str, *, prefix: str, lease: float, take_up: float | None, **_others: Any
) -> MemoryStore:
    """Make a store from ``memory://``; each call makes a separate one."""
    del url, prefix
    return MemoryStore(lease=lease, take_up=take_up)
