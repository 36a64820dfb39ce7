"""Keep permits in memory: the reference for the other stores, in plain Python under one lock."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.formats import FORMAT, check_format, format_warnings
from ...core.key import semaphore_of
from ...core.permit import (
    Answer,
    Claim,
    Decision,
    DeclaredLimit,
    Grant,
    MessageId,
    Permit,
    Renewals,
    Snapshot,
    Totals,
    Wait,
)
from ...core.store import HandedOn
from ...core.ticket import Ticket
from ..decisions import check_declared, check_limit, check_resource, length_of_pause
from ..durations import BringsDurations, Durations, new_durations
from ..encoding import (
    ResourceClaim,
    check_consumed,
    check_holder,
    check_name,
    check_totalled,
    consumed_for,
    microseconds,
    resource_claims,
)
from ..non_reentrant_lock import NonReentrantLock
from ..one_by_one import one_by_one
from ..options import DEFAULTS, StoreOptions
from .acquisition import Acquisition
from .ask import ask
from .attach import attach
from .durability import durability_of
from .facts import LOST, about
from .handing_on import hand_on
from .name import name as name_waits
from .outbox import sent, take
from .reap import reaped
from .release import end_wait, release
from .renew import renewed
from .state import MemoryState
from .totals import totals
from .view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...core.durability import Durability
    from ...core.facts import StoreFacts
    from ...core.session import HeldWait, SessionReply, Standing
    from ...core.store import Acquire, Outgoing, Release
    from ...errors import SemaphoreError

LOCK_TIMEOUT_S = 2.0  # seconds to wait for other calls of this process


@dataclass
class Kept:
    """Holds the state for all clients of one store in memory."""

    lock: NonReentrantLock = field(default_factory=lambda: NonReentrantLock(LOCK_TIMEOUT_S))
    state: MemoryState = field(default_factory=MemoryState)


class MemoryStore(BringsDurations):
    """Keeps permits in this process."""

    calls_at_once = 1

    def __init__(
        self, options: StoreOptions = DEFAULTS, *, beside: MemoryStore | None = None
    ) -> None:
        """Make a store of its own, or another client of the store ``beside``: for tests."""
        self.epoch: int | None = None
        self._durations = Durations(options)
        self.kept: Kept = beside.kept if beside else Kept()
        self._lock = self.kept.lock
        self._clock = options.now or time.time

    @property
    def _state(self) -> MemoryState:
        return self.kept.state

    def check(self, *, parks: bool = False) -> list[str]:
        epoch = self._state.epoch
        in_force = (epoch.lease, epoch.take_up) if epoch.lease else None
        warnings = [LOST] * parks + format_warnings(epoch.format)
        return warnings + self._durations.examine(in_force)

    def about(self) -> StoreFacts:
        return about(self._state.epoch.lease)

    def durability(self, most: int) -> Durability:
        with self._lock:
            return durability_of(self._state, most)

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        check_holder(holder, message_id)
        with self._lock:
            return Acquisition(self._entered(), claims, holder, wait, message_id).answer()

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
        check_name("message", name)
        check_name("broker", broker)
        with self._lock:
            state, ends = self._entered(), None if ends_in is None else microseconds(ends_in)
            attach(state, ticket, claims, payload, name=name, ends_in=ends, broker=broker)
            return self._handed_on(resource_claims(claims)).outgoing

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        with self._lock:
            state = self._entered()
            return {permit.holder: renewed(state, permit) for permit in permits}

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        wanted = resource_claims(claims)
        with self._lock:
            state = self._entered()
            if isinstance(holder, Ticket):
                end_wait(state, holder, wanted)  # R6
            else:
                release(state, holder, wanted, message_id)
            return self._handed_on(wanted)

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        return one_by_one(self, calls)

    def reap(self, limit: int = 100) -> Outgoing:
        with self._lock:
            return self._handed_on(reaped(self._entered(), limit)).outgoing

    def end(self, names: Sequence[str]) -> Outgoing:
        with self._lock:  # E12
            state = self._entered()
            concerned = state.with_messages(names)
            for at in concerned:
                for waiter in at.parked(names):
                    at.end(waiter.nonce, state.now + state.take_up)
            return self._handed_on([ResourceClaim(at.name, 0, 0) for at in concerned]).outgoing

    def promote(self, tickets: Sequence[Ticket], resource: str) -> frozenset[str]:
        with self._lock:  # E11
            state, wanted = self._entered(), [ResourceClaim(resource, 0, 0)]
            state.end_overdue(wanted)
            moved = state.at(resource).promote({ticket.nonce for ticket in tickets})
            self._handed_on(wanted)
            return moved

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        with self._lock:
            state = self._entered()
            return [grant for name in sorted(outgoing) for grant in take(state, name, broker)]

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
        with self._lock:
            state = self._entered()
            for grant in grants:
                sent(state, grant, state.take_up if arrive else 0)

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait] = (),
        to_forecast: Sequence[HeldWait] = (),
        *,
        room: int | None = None,
    ) -> SessionReply:
        check_name("session", session)
        with self._lock:
            return ask(self._entered(), session, begun, to_forecast, room)

    def sleep(self, session: str) -> None:
        with self._lock:
            self._entered().forget_session(session)  # Q6

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        check_name("session", session)
        with self._lock:
            return name_waits(self._entered(), session, waits)

    def consume(self, worker: str, queues: Collection[str], left: Collection[str] = ()) -> None:
        check_consumed(worker, [*queues, *left])
        with self._lock:
            state = self._entered()
            lasts = consumed_for(state.lease)
            state.consumed_queues.consume(state.now, lasts, worker, queues, left)

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        with self._lock:
            state = self._entered()
            lasts = consumed_for(state.lease)
            return state.consumed_queues.unconsumed(state.now, lasts, queues)

    def brokers(self, own: str = "") -> frozenset[str]:
        check_name("broker", own)
        with self._lock:
            state = self._entered()
            return state.brokers.all(state.now, own)

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        with self._lock:
            return view(self._entered(), resource, waiters, skip)

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        return (self.snapshot(name, waiters=0) for name in resources)

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        check_totalled(resources)
        with self._lock:
            return totals(self._state, microseconds(self._clock()), resources)

    def resources(self) -> Iterator[str]:
        with self._lock:
            return iter([n for n, at in self._state.resources.items() if not at.idle()])

    def declare(self, limits: Mapping[str, int], by: str) -> dict[str, DeclaredLimit]:
        check_declared(limits, by)
        with self._lock:
            state = self._entered()
            for resource, limit in limits.items():
                state.declare(resource, limit, by)
            found = {each: state.declared(each) for each in limits}
            limited = state.decisions.limit
            return {at: each for at, each in found.items() if each and limited(at) is None}

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        with self._lock:
            state = self._entered()
            state.decisions.set_limit(resource, limit, state.now)
            return self._look_at(resource)

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        length = length_of_pause(resource, lasts)
        with self._lock:
            state = self._entered()
            changed = state.decisions.pause(resource, length, state.now)
            self._look_at(resource)  # O3: from now on reapers look, also at the end of the pause
            return changed

    def resume(self, resource: str) -> Outgoing:
        check_resource(resource)
        with self._lock:
            self._entered().decisions.pauses.pop(resource, None)
            return self._look_at(resource)

    def decisions(self) -> dict[str, Decision]:
        with self._lock:
            check_format("the store", self._state.epoch.format)
            return self._state.decisions.all(microseconds(self._clock()))

    def set_lease(self, lease: float, take_up: float | None = None) -> None:
        in_force = new_durations(lease, take_up)
        with self._lock:
            state = self._entered()
            state.epoch.set_durations(state.now, in_force)
        self._durations.examine(in_force)

    def processes(self) -> dict[int, int]:
        return {FORMAT: 1}

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def forget(self) -> None:
        """Lose everything, like a server that restarts without its data."""
        with self._lock:
            self.kept.state = MemoryState()

    def remember(self) -> Callable[[], None]:
        """Return a function that loses all later changes, like a failover to a replica that lags."""
        with self._lock:
            kept = deepcopy(self._state)
            kept.epoch.restarted = True

        def lose_the_rest() -> None:
            with self._lock:
                self.kept.state = kept

        return lose_the_rest

    def set_format(self, number: int) -> None:
        """Set the format of the store, as newer processes do: for tests."""
        with self._lock:
            self._state.epoch.format = number

    def _entered(self) -> MemoryState:
        state = self._state
        self.epoch = state.enter(microseconds(self._clock()), self.epoch, self._durations.in_force)
        self._durations.adopt((state.lease, state.take_up))  # A16
        return state

    def _look_at(self, resource: str) -> Outgoing:
        """Hand on at the resource, or at all keys of a semaphore."""
        used = [n for n in self._state.resources if resource in (n, semaphore_of(n))]
        wanted = [ResourceClaim(name, 0, 0) for name in used]
        self._state.sweep(wanted)
        return self._handed_on(wanted).outgoing

    def _handed_on(self, wanted: Sequence[ResourceClaim]) -> HandedOn:
        return hand_on(self._state, [claim.resource for claim in wanted])  # R7
