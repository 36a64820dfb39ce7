"""Keep permits in a table of DynamoDB."""

from __future__ import annotations

from ..options import StoreOptions
from .store import DynamoStore
from .url import place_from_url

__all__ = ["DynamoStore", "from_url"]


def from_url(url: str, options: StoreOptions) -> DynamoStore:
    """Make a store from a URL; see ``store_from_url``."""
    return DynamoStore(place_from_url(url, options), options)
