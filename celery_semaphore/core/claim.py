"""Claim: what one call asks of one semaphore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import SemaphoreError
from .key import resource_name

if TYPE_CHECKING:
    from .ticket import Ticket


HIGHEST = 2**31 - 1  # limit or weight: every server counts these, and their sums, exactly


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one call on one semaphore: ``weight`` of its ``limit``, at its ``key``."""

    semaphore: str
    key: str | None
    limit: int | None  # None: it declares none, and the one in force holds; 0: it must not run now
    weight: int = 1
    resource: str = ""  # its name in the store: unique, printable ASCII; made from the two names

    def __post_init__(self) -> None:
        if not self.resource:
            object.__setattr__(self, "resource", resource_name(self.semaphore, self.key))


class OtherClaims(SemaphoreError):
    """The wait of this ``ticket`` has other ``claims``: nothing was acquired, ask again with these."""

    def __init__(self, ticket: Ticket, claims: tuple[Claim, ...]) -> None:
        names = ", ".join(repr(claim.semaphore) for claim in claims)
        super().__init__(f"the task waits for a permit of {names}, with other claims than these")
        self.ticket = ticket
        self.claims = claims
