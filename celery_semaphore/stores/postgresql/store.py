"""Keep permits in PostgreSQL: each call is one function, in one transaction and one round trip."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ...core.claim import Claim
from ...core.decision import Decision
from ...core.declared_limit import DeclaredLimit
from ...core.grant import Grant
from ...core.message_id import MessageId
from ...core.permit import Permit, Renewals
from ...core.refusal import Answer
from ...core.session import SessionReply, Standing
from ...core.snapshot import Snapshot
from ...core.store import HandedOn, Release
from ...core.totals import Totals
from ...core.wait import Wait
from ...errors import SemaphoreError, StoreUnavailable
from ..decisions import ENDLESS, check_declared, check_limit, check_resource, length_of_pause
from ..durations import BringsDurations, Durations, new_durations
from ..encoding import (
    ROUNDS,
    check_holder,
    check_name,
    check_totalled,
    microseconds,
    name_of,
    packed,
    resource_claims,
    seconds,
    totals_of,
)
from ..one_by_one import one_by_one
from ..options import DEFAULTS, StoreOptions
from ..processes import ThisProcess, by_format
from . import answers
from .answers import texts
from .connection import Composite, passed_over_if_busy
from .consumed_queues import ConsumedQueues
from .durability import durability_of
from .facts import facts_of
from .health import examine
from .index import Index
from .link import Link
from .names import original, stored
from .questions import acquisition, brought_by, columns, published
from .renewals import Renewer
from .runner import BATCH, SHORTEST_MS, Runner
from .schema import SchemaName, durations_of, install
from .sessions import Sessions
from .waits_of import waits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ...core.durability import Durability
    from ...core.facts import StoreFacts
    from ...core.session import HeldWait
    from ...core.store import Acquire, Outgoing
    from ...core.task_wait import TaskWait
    from ...core.ticket import Ticket

SEEN = 20  # snapshots in one call: it counts their lines within one timeout
TAKEN = 500  # messages of one resource in one call


class PostgresStore(BringsDurations):
    """Keeps permits in one database of a PostgreSQL server.

    ``place`` is its schema, by default that of the options. ``keeps`` returns whether connections stay open between
    calls. ``origin`` names the setting of the parameters in error texts. A store can be shared between threads and
    greenlets, and across a fork.
    """

    calls_at_once = 4  # each is a connection; a row that is locked must not stop all others
    one_round_trip = False  # a transaction for each acquire

    def __init__(
        self,
        parameters: Mapping[str, Any],
        options: StoreOptions = DEFAULTS,
        *,
        place: SchemaName | None = None,
        origin: str = "semaphore_url",
        keeps: Callable[[], bool] = lambda: True,
    ) -> None:
        self._durations = Durations(options)
        self._link = Link(parameters, options.timeout, origin=origin, keeps=keeps)
        self._place = place or SchemaName.of(options.prefix, options.transport_options)
        self._runner = Runner(self._link, self._place, options, self._durations)
        self._renewer = Renewer(self._runner)
        self._process = ThisProcess()
        self._sessions = Sessions(self._runner)
        self._consumed_queues = ConsumedQueues(self._runner)

    @property
    def epoch(self) -> int | None:
        """The newest epoch that the server has answered."""
        return self._runner.epoch

    @epoch.setter
    def epoch(self, epoch: int | None) -> None:
        self._runner.epoch = epoch

    def check(self, *, parks: bool = False) -> list[str]:
        warnings = examine(self._link, self._place, parks=parks)
        in_force = self._link.ask(partial(durations_of, place=self._place))
        return warnings + self._durations.examine(in_force)

    def about(self) -> StoreFacts:
        return self._link.ask(partial(facts_of, place=self._place))

    def durability(self, most: int) -> Durability:
        return self._link.ask(partial(durability_of, place=self._place, most=most))

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        check_holder(holder, message_id)
        wanted = resource_claims(claims)
        asked = acquisition(holder, wait, message_id, claims, wanted)
        (answer,) = self._runner.run("acquire", asked)
        epoch, token, since, ends, *refusal = answer
        self.epoch = int(epoch)
        if token is None:
            return answers.refusal(claims, wanted, refusal)
        return Permit(holder, int(token), tuple(claims), seconds(since), seconds(ends), self.epoch)

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
        wanted = resource_claims(claims)
        ends = None if ends_in is None else microseconds(ends_in)
        names = (stored(ticket.text), stored(name), ends, stored(broker))
        parked = Composite((*names, packed(claims), *columns(wanted)))
        said = self._runner.run("attach", parked, payload)
        return self._runner.handed_on([claim.resource for claim in wanted], said).outgoing

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        return self._renewer.renew(list(permits))

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        resources = [claim.resource for claim in resource_claims(claims)]
        words = (stored(name_of(holder)), *brought_by(message_id), resources)
        return self._runner.handed_on(resources, self._runner.run("release", *words))

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        if not _are_alike(calls):
            return one_by_one(self, calls)
        try:
            return [*self._released([call.holder for call in calls], calls[0].claims)]
        except StoreUnavailable as error:
            return [error] * len(calls)
        except SemaphoreError:  # perhaps of one of them
            return one_by_one(self, calls)

    def _released(
        self, holders: Sequence[str | Ticket], claims: Sequence[Claim]
    ) -> Iterator[HandedOn]:
        """Release these in one transaction, which locks their resources once."""
        resources = [claim.resource for claim in resource_claims(claims)]
        names = [stored(name_of(holder)) for holder in holders]
        for row in self._runner.run("release_each", names, resources):
            yield self._runner.handed_on(resources, [row])

    def reap(self, limit: int = 100) -> Outgoing:
        ((names,),) = self._runner.run("overdue", limit, self._process.name)
        return self._runner.reap(texts(names))

    def end(self, names: Sequence[str]) -> Outgoing:
        outgoing: Outgoing = frozenset()
        for start in range(0, len(names), BATCH):
            some = [stored(name) for name in names[start : start + BATCH]]
            for _ in range(ROUNDS):
                ((epoch, moved, needed, found, granted),) = self._runner.run("end", some)
                said = [[epoch, "f", needed, found, granted]]
                outgoing |= self._runner.handed_on(texts(found), said).outgoing
                if moved != "t":
                    break
        return outgoing

    def promote(self, tickets: Sequence[Ticket], resource: str) -> frozenset[str]:
        promoted = set[str]()
        nonces = [stored(ticket.nonce) for ticket in tickets]
        for start in range(0, len(nonces), BATCH):
            words = nonces[start : start + BATCH]
            ((*handed, moved),) = self._runner.run("promote", resource, words)
            self._runner.handed_on([resource], [handed])
            promoted |= set(map(original, texts(moved)))
        return frozenset(promoted)

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        names, by = sorted(outgoing), None if broker is None else stored(broker)
        grants: list[Grant] = []
        for start in range(0, len(names), BATCH):
            taken = self._runner.run("take", names[start : start + BATCH], TAKEN, by)
            grants += map(answers.grant, taken)
        return grants

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
        for start in range(0, len(grants), BATCH):
            some = grants[start : start + BATCH]
            told = json.dumps([published(each) for each in some])
            ((epoch,),) = self._runner.run("sent", told, arrive)
            self.epoch = int(epoch)

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait] = (),
        to_forecast: Sequence[HeldWait] = (),
        *,
        room: int | None = None,
    ) -> SessionReply:
        return self._sessions.ask(session, begun, to_forecast, room=room)

    def sleep(self, session: str) -> None:
        self._sessions.sleep(session)

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        return self._sessions.name(session, waits)

    def consume(self, worker: str, queues: Collection[str], left: Collection[str] = ()) -> None:
        self._consumed_queues.consume(worker, queues, left)

    def unconsumed(self, queues: Collection[str]) -> frozenset[str]:
        return self._consumed_queues.unconsumed(queues)

    def brokers(self, own: str = "") -> frozenset[str]:
        return self._consumed_queues.brokers(own)

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        ((epoch, seen),) = self._runner.run("snapshot", resource, waiters, skip)
        self.epoch = int(epoch)
        return answers.snapshot(resource, skip, seen)

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        names = iter(resources)
        for name in islice(names, 1):
            # Alone: it may begin a new epoch, and other calls would wait until the end of a whole batch.
            yield self.snapshot(name, waiters=0)
        while some := list(islice(names, SEEN)):
            for name, (epoch, seen) in zip(some, self._runner.run("snapshots", some), strict=True):
                self.epoch = int(epoch)
                yield answers.snapshot(name, 0, seen)

    def waits_of(self, task_id: str) -> list[TaskWait]:
        return waits_of(self._runner, task_id)

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        check_totalled(resources)
        said = self._runner.run("totals", resources)
        return [totals_of(*each) for each in zip(resources, said, strict=True)]

    def resources(self) -> Iterator[str]:
        return Index(self._runner).names()

    def declare(self, limits: Mapping[str, int], by: str) -> dict[str, DeclaredLimit]:
        check_declared(limits, by)
        found, busy = self._declare(limits, by)
        for name in busy:  # perhaps it is only in much use; a stuck one must not keep the caller
            with passed_over_if_busy():
                found |= self._declare({name: limits[name]}, by, SHORTEST_MS)[0]
        return found

    def _declare(
        self, limits: Mapping[str, int], by: str, lock_timeout: int | None = None
    ) -> tuple[dict[str, DeclaredLimit], list[str]]:
        """Declare, without ``lock_timeout`` but for what another call has locked; return that, too."""
        words = (list(limits), list(limits.values()), stored(by), lock_timeout is not None)
        ((epoch, found, busy),) = self._runner.run("declare", *words, lock_timeout=lock_timeout)
        self.epoch = int(epoch)
        return answers.declarations(found), texts(busy)

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        ((concerned,),) = self._runner.run("set_limit", resource, limit, ENDLESS)
        return self._runner.reap(texts(concerned))

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        length = length_of_pause(resource, lasts)
        ((changed, concerned),) = self._runner.run("pause", resource, length, ENDLESS)
        self._runner.reap(texts(concerned))  # O3: each is due at the end; sweeps send messages
        return bool(changed == "t")

    def resume(self, resource: str) -> Outgoing:
        check_resource(resource)
        ((concerned,),) = self._runner.run("resume", resource)
        return self._runner.reap(texts(concerned))

    def set_lease(self, lease: float, take_up: float | None = None) -> None:
        in_force = new_durations(lease, take_up)
        ((epoch,),) = self._runner.run("set_lease", *in_force)
        self.epoch = int(epoch)
        self._durations.examine(in_force)

    def processes(self) -> dict[int, int]:
        return by_format(str(name) for (name,) in self._runner.run("processes"))

    def decisions(self) -> dict[str, Decision]:
        return answers.decisions(self._runner.run("decisions"))

    def install(self) -> list[int]:
        """Create the missing tables and functions; return their versions."""
        return install(self._link, self._place)

    def script(self) -> str:
        """Return the script that ``install`` runs in an empty database."""
        return self._place.script()

    def close(self) -> None:
        self._link.close()


def _are_alike(calls: Sequence[Acquire | Release]) -> bool:
    """Return whether these are several releases of the same claims."""
    return len(calls) > 1 and all(
        isinstance(call, Release) and call.claims == calls[0].claims for call in calls
    )
