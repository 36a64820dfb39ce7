"""Make the calls of a store on a state, at one instant: without a lock, a clock, or a second try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.claim import Claim
from ...core.decision import Decision
from ...core.declared_limit import DeclaredLimit
from ...core.formats import check_format
from ...core.grant import Grant
from ...core.message_id import MessageId
from ...core.permit import Permit, Renewals
from ...core.refusal import Answer
from ...core.snapshot import Snapshot
from ...core.store import HandedOn
from ...core.ticket import Ticket
from ...core.totals import Totals
from ...core.wait import Wait
from ..encoding import ResourceClaim, consumed_for, microseconds, resource_claims
from .acquisition import Acquisition
from .ask import ask
from .attach import attach
from .handing_on import hand_on
from .name import name as name_waits
from .outbox import sent, take
from .reap import reaped
from .release import end_wait, release
from .renew import renewed
from .totals import totals
from .view import view
from .waits_of import waits_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ...core.session import HeldWait, SessionReply, Standing
    from ...core.store import Outgoing
    from ...core.task_wait import TaskWait
    from .state import StoreState


@dataclass
class Engine:
    """Makes one call of a store, of which the arguments were checked; keeps what the client learns by it."""

    state: StoreState
    now: int
    epoch: int | None  # that the client knows
    in_force: tuple[int, int]  # the lease and the take-up that the client brings

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
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
        state, ends = self._entered(), None if ends_in is None else microseconds(ends_in)
        attach(state, ticket, claims, payload, name=name, ends_in=ends, broker=broker)
        return self._handed_on(resource_claims(claims)).outgoing

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        state = self._entered()
        return {permit.holder: renewed(state, permit) for permit in permits}

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        wanted, state = resource_claims(claims), self._entered()
        if isinstance(holder, Ticket):
            end_wait(state, holder, wanted)  # R6
        else:
            release(state, holder, wanted, message_id)
        return self._handed_on(wanted)

    def reap(self, limit: int) -> Outgoing:
        return self._handed_on(reaped(self._entered(), limit)).outgoing

    def end(self, names: Sequence[str]) -> Outgoing:
        state = self._entered()  # E12
        concerned = state.with_messages(names)
        for at in concerned:
            for waiter in at.parked(names):
                at.end(waiter.nonce, state.now + state.take_up)
        return self._handed_on([ResourceClaim(at.name, 0, 0) for at in concerned]).outgoing

    def promote(self, tickets: Sequence[Ticket], resource: str) -> frozenset[str]:
        state, wanted = self._entered(), [ResourceClaim(resource, 0, 0)]  # E11
        state.end_overdue(wanted)
        moved = state.at(resource).promote({ticket.nonce for ticket in tickets})
        self._handed_on(wanted)
        return moved

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        state = self._entered()
        return [grant for name in sorted(outgoing) for grant in take(state, name, broker)]

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
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
        return ask(self._entered(), session, begun, to_forecast, room)

    def sleep(self, session: str) -> None:
        self._entered().forget_session(session)  # Q6

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        return name_waits(self._entered(), session, waits)

    def consume(self, worker: str, queues: Collection[str], left: Collection[str] = ()) -> None:
        state = self._entered()
        lasts = consumed_for(state.lease)
        state.consumed_queues.consume(state.now, lasts, worker, queues, left)

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        state = self._entered()
        return state.consumed_queues.unconsumed(state.now, consumed_for(state.lease), queues)

    def brokers(self, own: str = "") -> frozenset[str]:
        state = self._entered()
        return state.brokers.all(state.now, own)

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        return view(self._entered(), resource, waiters, skip)

    def waits_of(self, task_id: str) -> list[TaskWait]:
        return waits_of(self._entered(), task_id)

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        return totals(self.state, self.now, resources)

    def resources(self) -> list[str]:
        return self.state.catalogue.in_use()

    def declare(self, limits: Mapping[str, int], by: str) -> dict[str, DeclaredLimit]:
        state = self._entered()
        for resource, limit in limits.items():
            state.declare(resource, limit, by)
        found = {each: state.declared(each) for each in limits}
        limited = state.decisions.limit
        return {at: each for at, each in found.items() if each and limited(at) is None}

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        self.decide_limit(limit, resource)
        return self._look_at(resource)

    def pause(self, resource: str, length: int | None) -> bool:
        changed = self.decide_pause(resource, length)
        self._look_at(resource)  # O3: from now on reapers look, also at the end of the pause
        return changed

    def resume(self, resource: str) -> Outgoing:
        self.decide_resume(resource)
        return self._look_at(resource)

    def decide_limit(self, limit: int | None, resource: str) -> None:
        """Set the limit, for a store that hands on in other calls; so do those below."""
        state = self._entered()
        state.decisions.set_limit(resource, limit, state.now)

    def decide_pause(self, resource: str, length: int | None) -> bool:
        state = self._entered()
        return state.decisions.pause(resource, length, state.now)

    def decide_resume(self, resource: str) -> None:
        self._entered().decisions.pauses.pop(resource, None)

    def enter(self) -> None:
        """Make a call that does nothing else."""
        self._entered()

    def restored(self) -> None:
        """Begin an epoch, as after a restart: the newest changes are lost."""
        self.state.epoch.restarted = True
        self._entered()

    def look_at(self, name: str) -> Outgoing:
        """Hand on at one resource."""
        self._entered()
        wanted = [ResourceClaim(name, 0, 0)]
        self.state.sweep(wanted)
        return self._handed_on(wanted).outgoing

    def named(self, resource: str) -> list[str]:
        """Return the names of the resource and of all keys of the semaphore."""
        return self._entered().catalogue.of(resource)

    def decisions(self) -> dict[str, Decision]:
        check_format("the store", self.state.epoch.format)
        return self.state.decisions.all(self.now)

    def set_lease(self, in_force: tuple[int, int]) -> None:
        state = self._entered()
        state.epoch.set_durations(state.now, in_force)

    def _entered(self) -> StoreState:
        self.epoch = self.state.enter(self.now, self.epoch, self.in_force)
        self.in_force = self.state.lease, self.state.take_up  # A16
        return self.state

    def _look_at(self, resource: str) -> Outgoing:
        """Hand on at the resource, or at all keys of a semaphore."""
        wanted = [ResourceClaim(name, 0, 0) for name in self.state.catalogue.of(resource)]
        self.state.sweep(wanted)
        return self._handed_on(wanted).outgoing

    def _handed_on(self, wanted: Sequence[ResourceClaim]) -> HandedOn:
        return hand_on(self.state, [claim.resource for claim in wanted])  # R7
