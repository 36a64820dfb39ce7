"""Remember for a while which holders were released or died at a resource: row R4 of docs/maintain/architecture.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Tombstones(Protocol):
    """The marks of one resource."""

    def mark(self, holder: str, until: int) -> None:
        """Prevent until then that this holder gets a permit."""
        ...

    def has(self, holder: str) -> bool:
        """Return whether the holder was marked, and ``drop_expired`` has not deleted the mark."""
        ...

    def drop_expired(self, now: int) -> None:
        """Delete what has expired."""
        ...


@dataclass
class KeptTombstones:
    """Keeps the marks beside the resource, in this process."""

    until: dict[str, int] = field(default_factory=dict)

    def mark(self, holder: str, until: int) -> None:
        self.until[holder] = until

    def has(self, holder: str) -> bool:
        return holder in self.until

    def drop_expired(self, now: int) -> None:
        self.until = {holder: until for holder, until in self.until.items() if until > now}
