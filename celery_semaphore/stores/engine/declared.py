"""Keep the smallest limit that was declared lately: row A4 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import NamedTuple, Self

from ...core.declared_limit import DeclaredLimit


class Declared(NamedTuple):
    """The smallest limit of the newest window with a declaration, and of the window before it."""

    limit: int
    before: int | None  # None: nothing was declared in the window before
    ends: int  # of the newest window
    by: str  # declared it first in its window
    before_by: str

    @classmethod
    def noted(cls, known: Self | None, limit: int, by: str, now: int, lease: int) -> Declared:
        """Return the record after this declaration; windows are one lease long."""
        ends = now - now % lease + lease
        if known is None or known.ends <= ends - 2 * lease:
            return cls(limit, None, ends, by, "")
        if known.ends <= now:  # of the window before
            return cls(limit, known.limit, ends, by, known.by)
        # The present window, also if it seems to end later: then the clock stepped back, or the lease became shorter.
        low, by = (limit, by) if limit < known.limit else (known.limit, known.by)
        return cls(low, known.before, min(ends, known.ends), by, known.before_by)

    def carried(self, silent_since: int, now: int, lease: int) -> Declared:
        """Return what was in force when a silence began, as of the present window: no call came since (A17)."""
        if silent_since < now and self.ends <= now and silent_since < self.ends + lease:
            said = self.in_force(silent_since)
            return type(self)(said.limit, None, now - now % lease + lease, said.by, "")
        return self

    def lately(self, now: int, lease: int) -> DeclaredLimit | None:
        """Return the smallest of both windows, or nothing once both are over: A18."""
        return self.in_force(now) if now < self.ends + lease else None

    def in_force(self, now: int) -> DeclaredLimit:
        """Return the smallest of both windows; once both are over, the last one stays until another is declared."""
        if self.before is None or self.ends <= now or self.limit <= self.before:
            return DeclaredLimit(self.limit, self.by)
        return DeclaredLimit(self.before, self.before_by)
