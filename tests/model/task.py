"""A task of the model: its deliveries, and what they know of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.suite import LEASE

API, DISK, POOL = Claim("api", None, 1), Claim("disk", "x", 1), Claim("pool", None, 3, weight=2)
SEVERAL = {
    "api and disk": (API, DISK),
    "disk and api": (DISK, API),
    "api and pool": (API, POOL),
    "pool and disk": (POOL, DISK),
    "all three": (DISK, POOL, API),
}
CLAIMS = {
    "api": (API,),
    "disk": (DISK,),
    "pool": (Claim("pool", None, 3),),
    **SEVERAL,
    "api, limit 2": (Claim("api", None, 2),),
    "api, no limit": (Claim("api", None, None),),
    "api, not now": (Claim("api", None, 0),),
    "api and disk, not now": (API, Claim("disk", "x", 0)),
    "heavy api": (Claim("api", None, 2, weight=2),),
}
HOLDER, CALLER = "worker", "calling process"
SESSIONS = (HOLDER, CALLER)
WAITS = {
    "park": Wait(Kind.PARK, longest=5.0),
    "park, session": Wait(Kind.PARK, longest=5.0, session=HOLDER),
    "park, urgent": Wait(Kind.PARK, priority=9, longest=5.0),
    "park, 10 s": Wait(Kind.PARK, longest=5.0, timeout=10.0),
    "requeue": Wait(Kind.REQUEUE, longest=5.0),
    "kept": Wait(Kind.REQUEUE, longest=5.0, session=HOLDER, keeps=2 * LEASE),
    "kept, urgent": Wait(Kind.REQUEUE, priority=9, longest=5.0, session=HOLDER),
    "call": Wait(Kind.BLOCK, shortest=LEASE / 3, longest=LEASE / 3, session=CALLER),
    "not": None,
}
REACHABLE = ("park", "park, urgent", "kept", "kept, urgent", "call")  # if their sessions ask


@dataclass
class Task:
    """What its deliveries, all together, know of it."""

    name: str
    deliveries: int = 0
    messages: int = 0
    holder: str = ""
    claims: tuple[Claim, ...] = (API,)
    wait: Wait | None = None
    message_id: MessageId | None = None
    ticket: Ticket | None = None
    permit: Permit | None = None
    given_up_at: float = 0.0  # by its holder: a lease after the last answer that it has it
    names: list[str] = field(default_factory=list)  # of its parked messages
    # What each holder asked for, and for which message.
    asked: dict[str, tuple[tuple[Claim, ...], MessageId | None]] = field(default_factory=dict)
    known_until: float = float("inf")  # a holder that ended is remembered for a lease

    def deliver(self, claims: str | None, wait: str, message: str, *, header: bool = False) -> None:
        """Begin a new delivery: another holder, perhaps of another message."""
        self.deliveries += 1
        self.holder = f"{self.name}:{self.deliveries}"
        self.claims = CLAIMS[claims] if claims else self.claims
        self.known_until = float("inf")
        how = WAITS[wait]
        self.wait = how and _with_ticket(how, self.ticket if header else None)
        self.message_id = self._message_id(message)
        self.asked[self.holder] = (self.claims, self.message_id)

    def keep(self, claims: tuple[Claim, ...]) -> None:
        """Go on with the claims that its wait has (A19)."""
        self.claims = claims
        self.asked[self.holder] = (claims, self.message_id)

    @property
    def known(self) -> Ticket:
        """The ticket of its wait, which it was told."""
        assert self.ticket
        return self.ticket

    @property
    def calls(self) -> bool:
        return self.wait is not None and self.wait.kind is Kind.BLOCK

    def ask_with_ticket(self) -> None:
        """Go on with the wait, as the same holder."""
        self.wait = self.wait and _with_ticket(self.wait, self.ticket)

    @property
    def parks(self) -> bool:
        """Whether its message is parked if it is refused; its worker holds it if a callable says 0 (E17)."""
        refuses_itself = any(claim.limit == 0 for claim in self.claims)
        return self.wait is not None and self.wait.kind is Kind.PARK and not refuses_itself

    def _message_id(self, message: str) -> MessageId | None:
        if message == "none":
            return None
        self.messages += message == "next"
        number = "" if message == "first" or not self.messages else f"m{self.messages}"
        return MessageId(self.name, number, redelivered=message == "again")


def _with_ticket(wait: Wait, ticket: Ticket | None) -> Wait:
    return replace(wait, ticket=ticket)
