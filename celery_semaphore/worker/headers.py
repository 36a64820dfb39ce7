"""Headers: what a delivery brings to its gate, besides the task's own arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TICKET = "semaphore_ticket"  # the only one that a message carries because it waits
HOLDER = "semaphore_holder"  # from the main process to the one that runs the task
EPOCH = "semaphore_epoch"  # likewise
KEY = "semaphore_key"  # of a call, given to apply_async
WEIGHT = "semaphore_weight"  # likewise

URGENT = 9  # Redis' most urgent priority is 0, its least urgent 9


@dataclass(frozen=True, slots=True)
class Headers:
    """One delivery's headers."""

    holder: str | None
    epoch: int | None
    ticket: str | None
    key: str | None
    weight: int | None
    given_priority: int | None

    @classmethod
    def taken_from(cls, request: Any) -> Headers:
        """Read them, and take away what ``self.retry`` must not send along to another wait."""
        own = request.__dict__
        extra = request.headers or {}  # where an eager task finds what its call gave it
        headers = cls(
            own.get(HOLDER),
            own.get(EPOCH),
            own.get(TICKET),
            own.get(KEY, extra.get(KEY)),
            own.get(WEIGHT, extra.get(WEIGHT)),
            (request.delivery_info or {}).get("priority"),
        )
        for name in (HOLDER, EPOCH, TICKET):
            own.pop(name, None)
            extra.pop(name, None)
        return headers

    def priority(self, *, low_is_urgent: bool) -> int:
        """Higher goes first, whichever way the broker counts."""
        given = self.given_priority or 0
        priority = URGENT - given if low_is_urgent else given
        return min(max(priority, 0), 255)
