"""Tell operators what memory keeps."""

from __future__ import annotations

from ...core.facts import StoreFacts

LOST = "Parked tasks lie in this process, and are lost at its end: use redis://..., or on_saturated='requeue'."


def about() -> StoreFacts:
    """Return what is true of each store in memory."""
    return StoreFacts(
        server="memory of this process",
        address="not reached by other processes",
        durability="none: all is lost at the end of the process",
    )
