"""Keep permits in Redis or Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import StoreOptions
from .cluster import NodeFinder
from .keys import Keys
from .link import Link
from .primary import PrimaryFinder
from .store import RedisStore
from .url import nodes_from_url, pool_from_url, sentinels_from_url

if TYPE_CHECKING:
    from redis.connection import ConnectionPool

    from .finder import Finder

__all__ = ["RedisStore", "from_url"]


def from_url(url: str, options: StoreOptions) -> RedisStore:
    """Make a store from a URL; see ``store_from_url``."""
    pool = pool_from_url(url, options)
    return RedisStore(Link(pool, _finder(url, options, pool)), options)


def _finder(url: str, options: StoreOptions, pool: ConnectionPool) -> Finder:
    if sentinels := sentinels_from_url(url, options):
        return PrimaryFinder(pool, sentinels)
    remap = options.transport_options.get("address_remap")
    return NodeFinder(pool, Keys(options.prefix).slot, nodes_from_url(url), remap)
