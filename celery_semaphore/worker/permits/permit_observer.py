"""PermitObserver: the interface that takes the reports of deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...core.claim import Claim
from ...core.events import PermitAcquiredEvent
from ...core.store import HandedOn


class PermitObserver(Protocol):
    """Records the permits of deliveries: the ledger itself, or a pipe that leads to it."""

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """Record that the store will be asked for these claims; from now on they must be released."""

    def held(self, acquired: PermitAcquiredEvent, since: float, pid: int | None = None) -> None:
        """Record a permit; ``since`` is the monotonic time before the acquire.

        The permit ends with the process ``pid``; None stands for the caller's own process.
        """

    def over(self, holder: str) -> None:
        """Record that the body has ended; its process releases the permit, and then reports the end."""

    def released(self, holder: str, handed: HandedOn) -> None:
        """Record that the store has confirmed the release, and what it handed on."""

    def unreleased(self, holder: str) -> None:
        """Record that the task has ended but the store did not confirm: the permit must end with its lease."""
