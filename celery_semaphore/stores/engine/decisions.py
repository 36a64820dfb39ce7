"""Keep what operators decided: rows O1 to O4 of docs/maintain/architecture.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...core.key import semaphore_of
from ..decisions import ENDLESS, decision

if TYPE_CHECKING:
    from ...core.decision import Decision


class Paused(NamedTuple):
    """When a pause began, and when it ends."""

    since: int
    ends: int


@dataclass
class Decisions:
    """The limits and pauses of operators, by the name of a resource or a semaphore."""

    limits: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # each with the time it was set
    pauses: dict[str, Paused] = field(default_factory=dict)

    def set_limit(self, name: str, limit: int | None, now: int) -> None:
        self.limits.pop(name, None)
        if limit is not None:
            self.limits[name] = (limit, now)

    def limit(self, name: str) -> int | None:
        """Return the limit that was set for the key, else for its semaphore."""
        found = self.limits.get(name, self.limits.get(semaphore_of(name)))
        return found and found[0]

    def pause(self, name: str, lasts: int | None, now: int) -> bool:
        """O2: pause until the later one of both ends; return whether that changed anything."""
        before = self.pauses.get(name)
        ends = ENDLESS if lasts is None else now + lasts
        if before and before.ends > now:
            since, ends = before.since, max(before.ends, ends)
            self.pauses[name] = Paused(since, ends)
            return ends != before.ends
        self.pauses[name] = Paused(now, ends)
        return True

    def paused_until(self, name: str, now: int) -> int | None:
        """O1: return when the pauses of the key and of its semaphore have both ended, or None."""
        found = [self.pauses.get(one) for one in (name, semaphore_of(name))]
        ends = max((each.ends for each in found if each), default=now)
        return ends if ends > now else None

    def all(self, now: int) -> dict[str, Decision]:
        """Return what was decided, by name; O4: a pause that has ended is no more."""
        self.pauses = {name: each for name, each in self.pauses.items() if each.ends > now}
        found = {}
        for name in sorted({*self.limits, *self.pauses}):
            limit, limited_at = self.limits.get(name, (None, None))
            since, ends = self.pauses.get(name, (None, None))
            if decided := decision(now, limit, limited_at, ends, since):
                found[name] = decided
        return found
