"""Keep the epoch of the store: a new one begins when permits may have been lost."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.formats import FORMAT, check_format


@dataclass
class Epoch:
    """``enter`` begins a new epoch if needed; living holders restore their permits during its grace."""

    lease: int
    id: int = 0  # none yet
    restarted: bool = False  # since it began: the last writes may be lost
    created: int = 0
    grace_until: int = 0
    format: int = FORMAT

    def enter(self, now: int, known: int, furthest: int) -> int:
        """Return the epoch at this instant, for a caller that knows the epoch ``known`` (0: none).

        The grace ends at ``furthest`` at the latest: the clock may have stepped back.
        Raise ``NewerFormat`` if this release must not write to the store.
        """
        check_format("the store", self.format)  # A1
        recovered = now + self.lease * 2 // 3
        # A2, after E16. A caller that knows a newer epoch used a store that took over meanwhile, and came back to this
        # one.
        if not self.id or self.restarted or known > self.id:
            self.grace_until = recovered if known or self.id else 0
            self.id = max(now, self.id + 1, known + 1)
            self.created, self.restarted = now, False
        elif known and known != self.id and not self.grace_until:
            self.grace_until = recovered if now < self.created + self.lease else 0
        self.grace_until = min(self.grace_until, furthest)
        return self.id
