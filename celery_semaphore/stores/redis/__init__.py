"""Keep permits in Redis or Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .store import RedisStore
from .url import pool_from_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RedisStore", "from_url"]


def from_url(
    url: str,
    *,
    prefix: str,
    lease: float,
    take_up: float | None,
    timeout: float,
    transport_options: Mapping[str, Any],
    ssl: Mapping[str, Any] | bool | None,
) -> RedisStore:
    """Make a store from a URL; see ``store_from_url``."""
    pool = pool_from_url(url, timeout=timeout, transport_options=transport_options, ssl=ssl)
    return RedisStore(pool, prefix=prefix, lease=lease, take_up=take_up)
