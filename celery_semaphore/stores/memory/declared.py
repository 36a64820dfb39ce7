"""Keep the smallest limit that was declared lately: row A4 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import NamedTuple, Self


class Declared(NamedTuple):
    """The smallest limit of the newest window with a declaration, and of the window before it."""

    limit: int
    before: int | None  # None: nothing was declared in the window before
    ends: int  # of the newest window

    @classmethod
    def noted(cls, known: Self | None, limit: int, now: int, lease: int) -> Declared:
        """Return the record after this declaration; windows are one lease long."""
        ends = now - now % lease + lease
        if known is None or known.ends <= ends - 2 * lease:
            return cls(limit, None, ends)
        if known.ends <= now:  # of the window before
            return cls(limit, known.limit, ends)
        # The present window, also if it seems to end later: then the clock stepped back, or the lease became shorter.
        return cls(min(limit, known.limit), known.before, min(ends, known.ends))

    def in_force(self, now: int) -> int:
        """Return the smallest of both windows; once both are over, the last one stays until another is declared."""
        return (
            self.limit if self.before is None or self.ends <= now else min(self.limit, self.before)
        )
