"""One process only: for tests, and the readable reference of what every store does."""

from __future__ import annotations

from typing import Any

from .store import MemoryStore

__all__ = ["MemoryStore", "from_url"]


def from_url(
    url: str, *, prefix: str, lease: float, take_up: float | None, **_others: Any
) -> MemoryStore:
    """Make a store of ``memory://``; each is one of its own."""
    del url, prefix
    return MemoryStore(lease=lease, take_up=take_up)
