"""Tell operators what the table says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.durability import Durability, Safety
from ...core.facts import StoreFacts
from ..encoding import seconds

if TYPE_CHECKING:
    from ..engine.epoch import Epoch
    from .url import Place

SERVER = "DynamoDB"
WHY = "each write is on disks in several places before it is answered"
GROWS = (
    "The table {table!r} deletes nothing, and grows with each key and each task: run `celery -A <your app> semaphore"
    " install`, which switches on its time to live."
)


def about(place: Place, epoch: Epoch | None) -> StoreFacts:
    """Return the facts of a table; None for the epoch if there is none."""
    known = epoch if epoch and epoch.lease else None
    return StoreFacts(
        server=SERVER,
        address=str(place),
        format=known.format if known else None,
        lease=seconds(known.lease) if known else None,
        tables=int(epoch is not None),
        role="primary",
        durability=WHY,
    )


def durability(place: Place, parked: int, largest: int) -> Durability:
    return Durability(
        f"{SERVER}, {place}", Safety.COMMITTED, WHY, parked=parked, largest_payload=largest
    )
