"""Define the protocol of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import SemaphoreError
from .claim import Claim
from .decision import Decision
from .declared_limit import DeclaredLimit
from .durability import Durability
from .grant import Grant
from .message_id import MessageId
from .permit import Permit, Renewals
from .refusal import Answer
from .session import HeldWait, SessionReply, Standing
from .snapshot import Snapshot
from .task_wait import TaskWait
from .ticket import Ticket
from .totals import Totals
from .wait import Wait

# Resources with messages that a process with a broker must take and send.
Outgoing = frozenset[str]
TOTALLED = 500  # resources in one call of ``totals``
CALLED = 100  # calls of ``call_all``: more would delay those that come next
# How long a worker counts as a consumer of a queue after it said so; workers say it every ten seconds or more often.
CONSUMED_FOR_S = 30.0
BROKER_FOR_S = 3600.0  # how long a broker counts as used after a worker named it


@dataclass(frozen=True, slots=True)
class HandedOn:
    """What a release handed on.

    ``granted`` are the nonces of waits that a session must take up, so that a process which has such a wait need not
    ask. If the answer is lost they are not repeated, as a question of their session finds them.
    """

    outgoing: Outgoing = frozenset()
    granted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Acquire:
    """One call of ``acquire``, as a value."""

    claims: Sequence[Claim]
    holder: str
    wait: Wait | None = None
    message_id: MessageId | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """One call of ``release``, as a value."""

    holder: str | Ticket
    claims: Sequence[Claim]


class Store(Protocol):
    """Keeps the holders of each resource, their leases, and its waiters.

    Each call happens at one instant on the server, by the server's clock, on all its claims: all or nothing. It may be
    repeated after a lost answer and then gives the same answer, but for the ``granted`` of a release, the messages of
    ``take``, and whether a pause changed anything: those are told once. If the server does not answer in time, it
    raises ``StoreUnavailable``; whether the call took effect is then unknown, and an ``acquire`` without an answer must
    be followed by a ``release``.
    """

    epoch: int | None  # the newest one that this client, or its parent process, has seen
    # How many threads make the calls of all coroutines of a process: 1, unless one call may wait for another's lock.
    calls_at_once: int
    # Whether ``call_all`` has one round trip for all its calls; else they are made one after the other.
    one_round_trip: bool

    @property
    def in_force(self) -> tuple[int, int]:
        """The lease and the take-up that its calls bring, in microseconds; settable to what a parent process knew."""

    @in_force.setter
    def in_force(self, in_force: tuple[int, int]) -> None: ...

    @property
    def lease(self) -> float:
        """The seconds that a permit lives without a renewal: one length for the whole store.

        It is the store's own, which its first caller or ``set_lease`` set, as soon as a call of this client has learnt
        it: every call that brings another one is refused without an effect, and the client repeats it.
        """

    def check(self, *, parks: bool = False) -> list[str]:
        """Connect, verify that the server can keep permits, and return the warnings to log.

        With ``parks`` it must keep messages, too: warn if it would lose them. Raise ``ConfigurationError`` for a server
        that must not be used, ``StoreUnavailable`` for one that does not answer.
        """

    def durability(self, most: int) -> Durability:
        """Return how safe a parked message is now, and how many there are, counted up to ``most``.

        A worker asks once a minute, for the server's configuration may change while it runs. It must cost the same
        with few messages and with many. Raise ``StoreUnavailable`` if the server does not answer.
        """

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        """Admit the holder on all its claims, or refuse and remember its place if it would wait.

        A holder that has its permit gets the same permit. A holder with a granted ticket takes up the grant. A holder
        that was released or declared dead is refused for good. If a task has several messages, one runs: while its
        holder has a permit, the others and its own redelivery are refused for now, and for good once it was released
        with its ``message_id``. If it never is, another message may run, and its own redelivery begins a new wait.
        A wait keeps its claims: ``OtherClaims`` is raised for others than those of the ticket's wait.
        """

    def attach(
        self,
        ticket: Ticket,
        claims: Sequence[Claim],
        payload: bytes,
        *,
        name: str = "",
        ends_in: float | None = None,
        broker: str = "",
    ) -> Outgoing:
        """Attach its message to a parked ticket, which from now on can be granted, perhaps at once.

        ``end`` can end the wait by its ``name``; it ends by itself after ``ends_in`` seconds. ``broker`` is the name of
        the broker that the message belongs to; an empty one belongs to any. It raises ``OtherClaims`` as ``acquire``.
        """

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        """Extend the leases of known permits; restore only those that the store forgot.

        A permit that the server cannot access now gets no answer: it is neither renewed nor lost, and the caller
        retries it soon. So one stuck permit costs no other its lease.
        """

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        """Release the permit for good, or make sure that there will be none; hand on.

        With the ``message_id`` that brought the holder, its task has run, and its copies are refused from now on. A
        ticket is released in place of a holder: then its wait and its grant end.
        """

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        """Make these calls, at most ``CALLED``, in their order; return the answer or the error of each.

        It is no transaction: each call takes effect by itself, as ``acquire`` and ``release`` do. A store that has one
        round trip for all of them may raise ``StoreUnavailable``, which is the answer to each.
        """

    def reap(self, limit: int = 100) -> Outgoing:
        """End overdue leases, grants, waits and tickets of at most ``limit`` resources; hand on.

        It also notes that this process runs, see ``processes``.
        """

    def end(self, names: Sequence[str]) -> Outgoing:
        """End the waits of these parked messages, which are then sent without a permit."""

    def promote(self, tickets: Sequence[Ticket], resource: str) -> frozenset[str]:
        """Move these waits before all others in this line, as if their priority were the highest; return whose nonces.

        A wait that is in transit or in another line by now, or was granted, is left alone. A ticket from before stays
        valid. What is granted by that is left to the next ``reap``.
        """

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        """Return the messages that must be sent now, each to one caller only, until its ``expires_at``.

        With a ``broker``, those of other brokers stay, for callers that can reach these; the next ``reap`` of each such
        caller returns their resources.
        """

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
        """Forget these messages, which the broker has, and keep their permits until they arrive.

        If they do not ``arrive``, for no worker consumes their queues, their permits end now; the next ``reap`` hands
        on.
        """

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait] = (),
        to_forecast: Sequence[HeldWait] = (),
        *,
        room: int | None = None,
    ) -> SessionReply:
        """Return which waits of this session have a grant; the session is awake from now on, for one lease.

        The grants of ``begun``, which are being taken up, last ``GRANT_S`` seconds from now. For the waits in
        ``to_forecast``, at most ``EXPECTED``, return when their turns are expected. Until the next question the session
        is granted nothing while it has ``room`` grants, or more, that were not taken up; None sets no bound.
        """

    def sleep(self, session: str) -> None:
        """Grant nothing to this session until it asks again: it is about to end, or lost its broker."""

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        """Put these waits, at most ``NAMED``, in line again; return for each ticket whether this session owns its wait.

        The next ``reap`` grants them what is free.
        """

    def consume(self, worker: str, queues: Collection[str], left: Collection[str] = ()) -> None:
        """Note that this worker consumes these queues of the broker now, and those that it ``left`` no more.

        It counts for ``CONSUMED_FOR_S``, or a lease if that is longer; a worker that ends leaves all its queues.
        """

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        """Return which of these queues no worker consumes at this moment, as far as workers have said."""

    def brokers(self, own: str = "") -> frozenset[str]:
        """Return the brokers of this store's workers, as far as they were named within ``BROKER_FOR_S``.

        A worker names its ``own`` with this call, which notes it first.
        """

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        """Return one resource, with at most ``waiters`` of its waiters, without the first ``skip``."""

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        """Yield each of these resources, in order, without waiters; in few round trips, so not at one instant."""

    def waits_of(self, task_id: str) -> list[TaskWait]:
        """Return the waits of this task, oldest first, at most ``WAITS_OF_TASK``: mostly one, or none.

        Its cost must not grow with the number of waits in the store, but with the length of the line of each. The
        holders that were refused first are named ``<task id>:<more>``, where ``more`` has no colon.
        """

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        """Return the counts of these resources, at most ``TOTALLED``, in order and in one call.

        It takes no lock and changes nothing, so that metrics may ask often. A resource that is not in use has zeros.
        """

    def resources(self) -> Iterator[str]:
        """Yield every resource in use; the list may lag a little."""

    def declare(self, limits: Mapping[str, int], by: str) -> dict[str, DeclaredLimit]:
        """Declare a limit for each of these resources in the name of ``by``, as an attempt declares it.

        The name of ``all_keys_of`` a resource declares for all keys of its semaphore, for as long as it is repeated.
        Return what is in force of all that was declared there lately; leave out resources where an operator's limit is.
        A worker calls this three times in a lease, idle or not, in one round trip for all its resources.
        """

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        """Put a limit in force for one key, or for a whole semaphore, until cleared by None; a pause stays.

        It is kept in the store: a store that lost its data has lost limits and pauses, too. Raise ``ValueError`` for an
        invalid limit or an invalid name of a resource.
        """

    def set_lease(self, lease: float, take_up: float | None = None) -> None:
        """Change the lease of the whole store, and how long the grant of a sent message lasts (None: one lease).

        Each client learns it by its next call. Until the longer of both leases is over, nothing may end or be cut that
        a client may still renew by the old one. Raise ``ValueError`` for what is no duration.
        """

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        """Admit none at this resource, or at a whole semaphore with all its keys, whatever their limits are.

        It ends when it is resumed, or after ``lasts`` seconds. Of two pauses with one name the later end counts. Return
        whether that changed anything. Raise ``ValueError`` for an invalid name or length.
        """

    def resume(self, resource: str) -> Outgoing:
        """End the pause with this name, if there is one; pauses with other names stay."""

    def processes(self) -> dict[int, int]:
        """Return how many processes reaped within a minute, or a lease if that is longer, by the format they write.

        All processes that hold permits reap, so an operator sees whether one of an older release is left.
        """

    def decisions(self) -> dict[str, Decision]:
        """Return what operators decided, by the name of a resource or a semaphore; no pause that has ended."""

    def close(self) -> None:
        """Close the connections; the store reconnects when it is used again."""
