"""What the store remembers of itself: a new epoch begins when permits may have been forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.formats import FORMAT, check_format


@dataclass
class Epoch:
    """``enter`` begins a new one where that is needed; the living put their permits back in its grace."""

    lease: int
    id: int = 0  # none yet
    restarted: bool = False  # since it began: the last moments may be forgotten
    created: int = 0
    grace_until: int = 0
    format: int = FORMAT

    def enter(self, now: int, known: int, furthest: int) -> int:
        """Return the epoch at this instant, for a caller that has seen ``known`` (0: none).

        The grace lies ``furthest`` ahead at most: the clock may have stepped back since.
        Raises ``NewerFormat`` where this release must leave alone what there is.
        """
        check_format("the store", self.format)
        recovered = now + self.lease * 2 // 3
        # A caller that has seen a newer one was with a store that took over meanwhile, and came back to this one.
        if not self.id or self.restarted or known > self.id:
            self.grace_until = recovered if known or self.id else 0
            self.id = max(now, self.id + 1, known + 1)
            self.created, self.restarted = now, False
        elif known and known != self.id and not self.grace_until:
            self.grace_until = recovered if now < self.created + self.lease else 0
        self.grace_until = min(self.grace_until, furthest)
        return self.id
