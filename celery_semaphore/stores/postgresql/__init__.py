"""Keep permits in PostgreSQL."""

from __future__ import annotations

from ..options import StoreOptions
from .store import PostgresStore
from .url import parameters_from_url

__all__ = ["PostgresStore", "from_url"]


def from_url(url: str, options: StoreOptions) -> PostgresStore:
    """Make a store from a URL; see ``store_from_url``."""
    return PostgresStore(parameters_from_url(url, options), options)
