"""Tell operators what memory keeps."""

from __future__ import annotations

from ...core.facts import StoreFacts
from ..encoding import seconds

ALONE = "This store serves one process only: each worker would have the whole limit. Use redis://... for several."
LOST = "Parked tasks lie in this process, and are lost when it ends: use redis://..., or on_saturated='requeue'."


def about(lease: int) -> StoreFacts:
    """Return what is true of each store in memory; ``lease`` is in microseconds, 0 while it keeps none."""
    return StoreFacts(
        server="memory of this process",
        address="not reached by other processes",
        lease=seconds(lease) if lease else None,
        durability="none: everything is lost when the process ends",
        notes=(ALONE,),
    )
