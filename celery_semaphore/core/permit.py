"""The values that stores take and return. Times are the store's clock, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..errors import SemaphoreError
from .key import resource_name
from .ticket import Ticket

SHORTEST_DELAY_S = 0.1  # of a refused task that comes back by itself
LONGEST_DELAY_S = 300.0
UNKNOWN_HOLD_S = 1.0  # how long a permit is taken to be held where none was released yet
HIGHEST = 2**31 - 1  # limit or weight: every server counts these, and their sums, exactly


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one call on one semaphore: ``weight`` of its ``limit``, at its ``key``."""

    semaphore: str
    key: str | None
    limit: int | None  # None: it declares none, and the one in force holds
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


@dataclass(frozen=True, slots=True)
class Permit:
    """The right of one holder to run, on all its claims, until its lease ends."""

    holder: str
    # Fencing token: grows with every admission on each of its resources. It is the time, in microseconds, at which the
    # permit was granted or acquired, unless that would not grow.
    token: int
    claims: tuple[Claim, ...]
    acquired_at: float  # when its holder got it; its wait may have been granted before
    expires_at: float
    epoch: int  # of the store when this permit was written


class Kind(StrEnum):
    """How a waiter waits, and so how it comes back."""

    REQUEUE = "requeue"  # a worker keeps its message and asks for its grant, or the broker has it
    PARK = "park"  # its message is in the store until it is granted a permit
    BLOCK = "block"  # a call blocks; its process asks for its grant


@dataclass(frozen=True, slots=True)
class Wait:
    """How a caller would wait if it were refused. Durations are in seconds."""

    kind: Kind
    ticket: Ticket | None = None  # from an earlier refusal of the same wait: keeps its place
    priority: int = 0  # higher goes first; calls and messages without one have DEFAULT_PRIORITY
    shortest: float = SHORTEST_DELAY_S  # bounds of the delay
    longest: float = LONGEST_DELAY_S
    jitter: float = 1.0  # the caller's random factor on the delay
    timeout: float | None = None  # of the whole wait, since the ticket was made
    session: str = ""  # asks for the grants of this wait, see core.session; empty: none does
    keeps: float = 0.0  # how long its place is kept while the session sleeps; at least a lease


@dataclass(frozen=True, slots=True)
class MessageId:
    """The id of the message that brought the holder: of all messages that a crash may leave, one must run.

    A waiting task's message is published again before the old one is acknowledged. A process that dies in between
    leaves both. A redelivery of the message that was admitted may run once that run has died.
    """

    task: str  # the same for every message of one task, and unique to it: see ``message_id_of``
    number: str = ""  # unique to this message; empty for the one that the task's sender published
    redelivered: bool = False  # whether the broker delivered this very message before
    remember_for: float = 3600.0  # seconds for which its copies are recognised

    @property
    def is_first(self) -> bool:
        """Whether no message went before it, so that known messages belong to an earlier task of this id."""
        return not (self.number or self.redelivered)

    @property
    def task_id(self) -> str:
        """The task's id, by which the names of its holders begin: see ``task_id_of``."""
        return self.task.rsplit(":", 2)[0]


class Reason(StrEnum):
    """The reason of a refusal."""

    SATURATED = "saturated"
    PAUSED = "paused"  # by an operator; or the limit in force is 0
    UNSATISFIABLE = "unsatisfiable"  # the weight is above the limit in force
    RECOVERING = "recovering"  # the grace of a new epoch, in which living holders restore permits
    RELEASED = "released"  # the holder released its permit, or was declared dead; refused for good
    RUNNING = "running"  # this task has a permit by another delivery: it may run, or have died
    COPY = "copy"  # this task ran by another delivery; this one must not run
    TIMED_OUT = "timed_out"  # the whole wait took longer than its timeout; the ticket is gone


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason of a refusal, the number of waiters ahead, and when to ask again."""

    claim: Claim  # the one that refused: the first, or of several that are saturated the slowest
    reason: Reason
    limit: int  # in force at that claim's resource
    occupied: int  # weight of the permits and grants there
    ticket: Ticket | None  # None if the caller does not wait
    position: int  # waiters ahead
    retry_after: float  # seconds, within the caller's bounds
    waited: float  # seconds since the ticket was made
    # Of a weight above the limit in force: the process that declared that limit; empty if an operator set it.
    declared_by: str = ""
    kept: int = 0  # weight of the room there that waits before this one keep


@dataclass(frozen=True, slots=True)
class Grant:
    """A parked message that must be sent: it was granted a permit, or its wait has ended without one."""

    ticket: Ticket
    token: int  # 0 without a permit
    claims: tuple[Claim, ...]  # a long name is cut: stores use the resource's name
    payload: bytes
    expires_at: float  # until then it must be sent, or it will be offered again


class Renewal(StrEnum):
    """The outcome of the renewal of one permit."""

    OK = "ok"
    RESTORED = "restored"  # the store had forgotten it and took it back
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Held:
    """One permit, or one grant, as a snapshot shows it."""

    holder: str  # of a grant, the nonce of its ticket: its holder is not known yet
    token: int
    weight: int
    acquired_at: float
    expires_at: float
    ticket: Ticket | None = None  # of a grant: the wait to take it up

    @property
    def granted(self) -> bool:
        """Whether this is a grant."""
        return self.ticket is not None


@dataclass(frozen=True, slots=True)
class Waiter:
    """One wait as a snapshot shows it; position 0 is next."""

    ticket: Ticket
    kind: Kind
    weight: int
    position: int
    due: float
    unsatisfiable: bool
    session: str = ""  # the one that asks for its grants
    reachable: bool = False  # whether a permit can be granted to it now


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that operators began, by the store's clock."""

    lasted: float  # seconds since it began
    left: float | None  # seconds until it ends; None: it lasts until it is resumed


@dataclass(frozen=True, slots=True)
class Decision:
    """What operators decided for one name: of a resource, or of a whole semaphore."""

    limit: int | None = None
    limited_for: float | None = None  # seconds since that limit was set
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class DeclaredLimit:
    """The smallest limit that was declared lately, and the process that declared it: a worker, or ``<id>@<host>``."""

    limit: int
    by: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One resource as the store saw it at one instant."""

    resource: str
    limit: int | None  # in force, but for a pause; None if none was ever declared
    set_by_operator: bool
    occupied: int
    mean_held: float | None  # seconds for which this resource's permits were held lately
    holders: tuple[Held, ...]  # oldest first
    waiters: tuple[Waiter, ...]  # in order, at most as many as were asked for
    waiting: int  # all of them
    at: float  # the store's time
    # The store's time until which it admits none, for it may have forgotten permits; None outside such a grace.
    grace_until: float | None = None
    # The store's time until which it is paused, or its semaphore is: infinity if that is until it is resumed.
    paused_until: float | None = None
    declared: DeclaredLimit | None = None  # in force if no operator set a limit; None: none was
    kept: int = (
        0  # weight of the room that waits keep here while another of their claims is saturated
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of one resource as the store saw it at one instant: no holder, no ticket."""

    resource: str
    limit: int | None  # in force, but for a pause; None if none was ever declared
    set_by_operator: bool
    held: int  # weight of the permits
    granted: int  # weight of the grants
    parked: int  # waits with a message in the store, without a grant
    reachable: int  # other waits that a session can be granted, as far as was last checked
    in_transit: int  # waits that nothing can be granted to now
    set_aside: int  # of those waits, the ones with a weight above the limit in force
    oldest_wait: float | None  # seconds since the oldest of these waits began
    outbox: int  # messages that must be sent
    outbox_oldest: (
        float | None
    )  # seconds since the oldest grant of these messages; None if all have ended
    paused: bool = False  # it, or its semaphore
    kept: int = 0  # see Snapshot.kept
    mean_held: float | None = None  # seconds for which this resource's permits were held lately

    @property
    def occupied(self) -> int:
        """The weight of the permits and the grants."""
        return self.held + self.granted

    @property
    def waiting(self) -> int:
        """The number of all waits."""
        return self.parked + self.reachable + self.in_transit


Answer = Permit | Refusal
Renewals = dict[str, Renewal]  # by holder
