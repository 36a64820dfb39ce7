"""Keep permits in Redis or Valkey."""

from __future__ import annotations

from ..options import StoreOptions
from .store import RedisStore
from .url import nodes_from_url, pool_from_url, sentinels_from_url

__all__ = ["RedisStore", "from_url"]


def from_url(url: str, options: StoreOptions) -> RedisStore:
    """Make a store from a URL; see ``store_from_url``."""
    pool = pool_from_url(url, options)
    return RedisStore(pool, options, nodes_from_url(url), sentinels_from_url(url, options))
