"""Find stores that need an installation on their server, such as tables, before they can be used."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Installable(Protocol):
    """Describes a store that has tables of its own."""

    def install(self) -> list[int]:
        """Create what is missing; return the versions that were not installed before."""

    def script(self) -> str:
        """Return the whole SQL script, or the commands, to be run by hand."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class Restorable(Protocol):
    """Describes a store that does not notice that its server was restored from a backup."""

    def restored(self) -> None:
        """Begin an epoch."""
