"""The values that cross the store's boundary. Times are the store's clock, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .key import resource_name

HIGHEST = 2**31 - 1  # limit or weight: every server, and every sum of them, counts so far exactly


@dataclass(frozen=True, slots=True)
class Claim:
    """What one call asks of one semaphore: ``weight`` of its ``limit``, at its ``key``."""

    semaphore: str
    key: str | None
    limit: int
    weight: int = 1
    resource: str = ""  # its name in the store: unique, printable ASCII; made from the two names

    def __post_init__(self) -> None:
        if not self.resource:
            object.__setattr__(self, "resource", resource_name(self.semaphore, self.key))


@dataclass(frozen=True, slots=True)
class Permit:
    """The right of one holder to run, on all its claims, until its lease ends."""

    holder: str
    token: int  # fencing token: grows with every admission on each of its resources
    claims: tuple[Claim, ...]
    acquired_at: float  # when its holder got it, though it may have been granted to its wait before
    expires_at: float
    epoch: int  # the store's memory this permit was written into


class Kind(StrEnum):
    """How a waiter waits, and so how it comes back."""

    REQUEUE = "requeue"  # its message is held by a worker whose session asks for it, or is with the broker
    PARK = "park"  # its message lies in the store until a permit is handed to it
    BLOCK = "block"  # waits right there; its process asks for its grant


@dataclass(frozen=True, slots=True)
class Wait:
    """How a caller would wait if it were refused. Durations are in seconds."""

    kind: Kind
    ticket: str | None = None  # from an earlier refusal of the same wait: keeps its place
    priority: int = 0  # higher goes first
    shortest: float = 0.1  # no delay is shorter ...
    longest: float = 300.0  # ... or longer than this
    jitter: float = 1.0  # the caller's random factor on the delay
    timeout: float | None = None  # of the whole wait, since the ticket was made
    session: str = ""  # that asks for the grants of this wait, see core.session; empty: none does
    keeps: float = 0.0  # for so long its place is kept when the session sleeps; at least a lease


@dataclass(frozen=True, slots=True)
class MessageId:
    """Which message of a task brought the caller: of all that a crash may leave, one shall run.

    A waiting task's message is published anew before the old one is acknowledged. Whoever dies in
    between leaves both. A broker's redelivery of the message that was admitted is no copy of it.
    """

    task: str  # the same for every message of one task, and no other's
    number: str = ""  # unique to this message; empty: as the task's sender published it
    redelivered: bool = False  # the broker delivered this very message before
    remember_for: float = 3600.0  # seconds for which its copies are recognised

    @property
    def is_first(self) -> bool:
        """Nothing went before it: what is known under its name is of an earlier task of that id."""
        return not (self.number or self.redelivered)


class Reason(StrEnum):
    """Why there is no permit."""

    SATURATED = "saturated"
    PAUSED = "paused"  # the limit in force is 0
    UNSATISFIABLE = "unsatisfiable"  # the weight is above the limit in force
    RECOVERING = "recovering"  # the grace of a new epoch: the living put their permits back first
    RELEASED = (
        "released"  # this holder gave its permit back, or was declared dead; it never runs again
    )
    RUNNING = "running"  # another message of this task holds a permit: it may run, or have died
    COPY = "copy"  # another message of this task ran; this one must not
    TIMED_OUT = "timed_out"  # the whole wait took longer than its timeout; the ticket is gone


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no permit, who waits ahead, and when it is worth asking again."""

    claim: Claim  # the first one that refused
    reason: Reason
    limit: int  # in force at that claim's resource
    occupied: int  # weight of the permits and grants there
    ticket: str | None  # None when the caller would not wait
    position: int  # waiters ahead
    retry_after: float  # seconds, within the caller's bounds
    waited: float  # seconds since the ticket was made


@dataclass(frozen=True, slots=True)
class Grant:
    """A parked message to be sent: a permit is granted to it, or its wait has ended without one."""

    ticket: str
    token: int  # 0 without a permit
    claims: tuple[Claim, ...]  # a long name by its beginning: the resource's name is what counts
    payload: bytes
    expires_at: float  # until then it must be sent, or it will be offered again


class Renewal(StrEnum):
    """What became of a permit that was renewed."""

    OK = "ok"
    RESTORED = "restored"  # the store had forgotten it and took it back
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Held:
    """One holder, or one waiter that was granted, as a snapshot shows it."""

    holder: str  # a ticket, when ``granted``
    token: int
    weight: int
    acquired_at: float
    expires_at: float
    granted: bool


@dataclass(frozen=True, slots=True)
class Ticket:
    """One waiter as a snapshot shows it; position 0 is next."""

    id: str
    kind: Kind
    weight: int
    priority: int
    position: int
    since: float
    due: float
    unsatisfiable: bool
    session: str = ""  # that asks for its grants
    reachable: bool = False  # whether a permit can be granted to it now


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One resource as the store saw it at one instant."""

    resource: str
    limit: int | None  # in force; None where nobody ever declared one
    set_by_operator: bool
    occupied: int
    mean_held: float | None  # seconds this resource's permits were held lately
    holders: tuple[Held, ...]  # oldest first
    waiters: tuple[Ticket, ...]  # in order, at most as many as were asked for
    waiting: int  # all of them
    at: float  # the store's time


Answer = Permit | Refusal
Renewals = dict[str, Renewal]  # by holder
