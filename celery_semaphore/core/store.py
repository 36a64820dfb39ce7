"""What a semaphore needs from a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from .permit import Answer, Claim, Grant, MessageId, Permit, Renewals, Snapshot, Wait
from .session import HeldWait, Standing, Turns

Outgoing = frozenset[
    str
]  # resources with messages that somebody who has a broker must take and send


class Store(Protocol):
    """Keeps the holders of each resource, their leases, and who waits.

    Each call happens at one instant on the server, by the server's clock, on all its claims: all or
    nothing. Each may be repeated after a lost answer and gives the same answer. A server that does
    not answer in time raises ``StoreUnavailable``; whether the call took effect is then unknown, and
    an unanswered ``acquire`` must be followed by a ``release``.
    """

    lease: float  # seconds a permit lives unrenewed; one length for the whole store
    epoch: int | None  # the newest memory of the store that this client, or who made it, has seen

    def check(self, *, parks: bool = False) -> list[str]:
        """Connect and verify that the server can keep permits; the warnings to log.

        With ``parks`` it is to keep messages too: one that would lose them is worth a warning.
        Raises ``ConfigurationError`` for a server that must not be used, ``StoreUnavailable`` for one
        that does not answer.
        """

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        """Admit the holder on all its claims, or refuse and remember its place if it would wait.

        A holder that has its permit gets the same permit; a holder whose ticket was granted takes the
        grant up; one that was released or declared dead is refused for good. Of a task's several
        messages one runs: while its holder has a permit the others are refused for now, and for good
        once it was released with its ``message_id``. If it never is, another one may run.
        """

    def attach(
        self,
        ticket: str,
        claims: Sequence[Claim],
        payload: bytes,
        *,
        name: str = "",
        ends_in: float | None = None,
    ) -> Outgoing:
        """Give a parked ticket its message; from now on it can be granted, perhaps at once.

        By its ``name`` the wait can be ended early; it ends by itself after ``ends_in`` seconds.
        """

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        """Extend the leases of what is still there; put back only what the store forgot.

        A permit that cannot be looked at now gets no answer: it is neither renewed nor lost, and the caller asks
        for it again soon. So one that is stuck costs no other its lease.
        """

    def release(
        self, holder: str, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> Outgoing:
        """Give the permit back for good, or make sure that there will be none; hand on.

        With the ``message_id`` that brought the holder, its task ran, and no copy of it shall. A
        ticket can be given up likewise.
        """

    def reap(self, limit: int = 100) -> Outgoing:
        """End overdue leases, grants, waits and tickets of at most ``limit`` resources; hand on."""

    def end(self, names: Sequence[str]) -> Outgoing:
        """End the waits of these parked messages: they shall be sent without a permit."""

    def promote(self, tickets: Sequence[str], resource: str) -> Outgoing:
        """Let these waits go before all others in this line, as if their priority were the highest.

        One that waits elsewhere by now, or was granted, is left alone. A ticket that was made before the promotion is
        still good for whoever brings it.
        """

    def take(self, outgoing: Outgoing) -> list[Grant]:
        """The messages to be sent now, each to one caller only, until its ``expires_at``."""

    def sent(self, grants: Sequence[Grant]) -> None:
        """The broker has these messages: forget them, and keep their permits until they come."""

    def ask(
        self, session: str, begun: Sequence[HeldWait] = (), look: Sequence[HeldWait] = ()
    ) -> Turns:
        """Tell which waits of this session have a grant. The session is awake from now on, for one lease.

        The grants of ``begun``, which are being taken up, last ``GRANT_S`` seconds from now. Of ``look``, at most
        ``EXPECTED`` waits, it tells when their turns are expected.
        """

    def sleep(self, session: str) -> None:
        """Grant nothing more to this session until it asks again: it is about to end, or lost its broker."""

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[str, Standing]:
        """Let these waits, at most ``NAMED``, stand in line again; tell of each ticket whether this session learns of its grant.

        What can be granted to them is found by the next ``reap``.
        """

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        """One resource, with at most so many of its waiters, behind the first so many."""

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        """Each of these, in their order, without its waiters; in few round trips, so not all at one instant."""

    def resources(self) -> Iterator[str]:
        """Every resource in use; may lag a little."""

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        """Put a limit in force for one key, or for all of a semaphore, until cleared by None; 0 pauses.

        It lies in the store: a store that lost its data has lost the limits and pauses too.
        Raises ``ValueError`` for what is no limit, or no resource's name.
        """

    def limits(self) -> dict[str, int]:
        """What operators set, by the name of a resource, or of a semaphore."""

    def close(self) -> None:
        """Close the connections; the store reconnects when it is used again."""
