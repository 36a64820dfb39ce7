"""Offer the calls of the engine as a store: checked, and made by whatever keeps the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from ...core.claim import Claim
from ...core.decision import Decision
from ...core.declared_limit import DeclaredLimit
from ...core.grant import Grant
from ...core.message_id import MessageId
from ...core.permit import Permit, Renewals
from ...core.refusal import Answer
from ...core.session import EXPECTED
from ...core.snapshot import Snapshot
from ...core.store import HandedOn
from ...core.ticket import Ticket
from ...core.totals import Totals
from ...core.wait import Wait
from ..decisions import check_declared, check_limit, check_resource, length_of_pause
from ..durations import BringsDurations, new_durations
from ..encoding import check_consumed, check_holder, check_name, check_totalled
from .engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...core.session import HeldWait, SessionReply, Standing
    from ...core.store import Outgoing
    from ...core.task_wait import TaskWait

T = TypeVar("T")


def named(claims: Iterable[Claim]) -> list[str]:
    """Return the resources of these claims."""
    return [claim.resource for claim in claims]


class EngineStore(BringsDurations, ABC):
    """Makes the calls of a store by an engine; a subclass brings the clock and the state."""

    @abstractmethod
    def _call(self, made: Callable[[Engine], T], concerned: Iterable[str] = ()) -> T:
        """Make a call on an engine, once or until it is kept, and note what the client learns by it.

        It will look at the resources that it is ``concerned`` with.
        """

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        check_holder(holder, message_id)
        return self._call(
            lambda engine: engine.acquire(claims, holder, wait, message_id), named(claims)
        )

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
        return self._call(
            lambda engine: engine.attach(
                ticket, claims, payload, name=name, ends_in=ends_in, broker=broker
            ),
            named(claims),
        )

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        given = [*permits]  # it may be made again
        return self._call(lambda engine: engine.renew(given))

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        return self._call(lambda engine: engine.release(holder, claims, message_id), named(claims))

    def reap(self, limit: int = 100) -> Outgoing:
        return self._call(lambda engine: engine.reap(limit))

    def end(self, names: Sequence[str]) -> Outgoing:
        return self._call(lambda engine: engine.end(names))

    def promote(self, tickets: Sequence[Ticket], resource: str) -> frozenset[str]:
        return self._call(lambda engine: engine.promote(tickets, resource), [resource])

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        return self._call(lambda engine: engine.take(outgoing, broker))

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
        self._call(lambda engine: engine.sent(grants, arrive=arrive))

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait] = (),
        to_forecast: Sequence[HeldWait] = (),
        *,
        room: int | None = None,
    ) -> SessionReply:
        check_name("session", session)
        waits = [*begun, *to_forecast[:EXPECTED]]
        concerned = {name for wait in waits for name in named(wait.claims)}
        return self._call(
            lambda engine: engine.ask(session, begun, to_forecast, room=room), concerned
        )

    def sleep(self, session: str) -> None:
        self._call(lambda engine: engine.sleep(session))

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        check_name("session", session)
        return self._call(lambda engine: engine.name(session, waits))

    def consume(self, worker: str, queues: Collection[str], left: Collection[str] = ()) -> None:
        check_consumed(worker, [*queues, *left])
        self._call(lambda engine: engine.consume(worker, queues, left))

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        return self._call(lambda engine: engine.unconsumed(queues))

    def brokers(self, own: str = "") -> frozenset[str]:
        check_name("broker", own)
        return self._call(lambda engine: engine.brokers(own))

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        return self._call(lambda engine: engine.snapshot(resource, waiters, skip))

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        return (self.snapshot(name, waiters=0) for name in resources)

    def waits_of(self, task_id: str) -> list[TaskWait]:
        return self._call(lambda engine: engine.waits_of(task_id))

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        check_totalled(resources)
        return self._call(lambda engine: engine.totals(resources), resources)

    def resources(self) -> Iterator[str]:
        return iter(self._call(lambda engine: engine.resources()))

    def declare(self, limits: Mapping[str, int], by: str) -> dict[str, DeclaredLimit]:
        check_declared(limits, by)
        return self._call(lambda engine: engine.declare(limits, by))

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        return self._call(lambda engine: engine.set_limit(limit, resource))

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        length = length_of_pause(resource, lasts)
        return self._call(lambda engine: engine.pause(resource, length))

    def resume(self, resource: str) -> Outgoing:
        check_resource(resource)
        return self._call(lambda engine: engine.resume(resource))

    def decisions(self) -> dict[str, Decision]:
        return self._call(lambda engine: engine.decisions())

    def set_lease(self, lease: float, take_up: float | None = None) -> None:
        in_force = new_durations(lease, take_up)
        self._call(lambda engine: engine.set_lease(in_force))
        self._durations.examine(in_force)
