"""Describe what a store's server says of itself, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class StoreFacts:
    """States how a store keeps its data; None stands for what the server does not say.

    No field holds a password.
    """

    server: str  # its name and version
    address: str  # where it was reached
    format: int | None = None  # of its records; None while there are none, too
    lease: float | None = (
        None  # the one that it keeps for all callers, in seconds; None while there is none
    )
    tables: int | None = None  # the installed version of tables and functions, if it has any
    role: str | None = None  # primary or replica
    durability: str | None = None  # what a restart or a crash leaves
    eviction: str | None = None  # what is deleted when memory is short
    notes: tuple[str, ...] = ()  # what to know of these, and what to do about it


@runtime_checkable
class DescribedStore(Protocol):
    """Tells operators how it keeps its data; a store may have no such call."""

    def about(self) -> StoreFacts:
        """Return what the server says of itself; raise ``StoreUnavailable`` if it does not answer."""
