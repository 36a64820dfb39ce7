"""Keep permits in Redis or Valkey: each call is one atomic script and one round trip."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...core.claim import Claim
from ...core.decision import Decision
from ...core.declared_limit import DeclaredLimit
from ...core.formats import FORMAT, format_warnings
from ...core.grant import Grant
from ...core.key import semaphore_of
from ...core.message_id import MessageId
from ...core.permit import Permit, Renewals
from ...core.refusal import Answer
from ...core.snapshot import Snapshot
from ...core.store import HandedOn
from ...core.totals import Totals
from ...core.wait import Wait
from ..decisions import ENDLESS, check_declared, check_limit, check_resource, length_of_pause
from ..durations import BringsDurations, Durations, new_durations
from ..encoding import (
    ResourceClaim,
    check_holder,
    check_name,
    check_totalled,
    microseconds,
    name_of,
    packed,
    resource_claims,
)
from ..options import DEFAULTS, StoreOptions
from ..processes import ThisProcess, by_format
from . import answers, scripts
from .batch import Batch
from .connection import pack
from .consumed_queues import ConsumedQueues
from .durability import durability_of
from .facts import durations_of, facts_of, format_of
from .hand_on import HandOn
from .health import denied_is_misconfigured, examine
from .index import Index
from .keys import Keys
from .questions import acquisition
from .renewals import Renewer, figures_of
from .runner import BATCH, NONE, Call, Runner
from .sessions import Sessions
from .short_calls import ShortCalls
from .totals import totals
from .waits_of import waits_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ...core.durability import Durability
    from ...core.facts import StoreFacts
    from ...core.session import HeldWait, SessionReply, Standing
    from ...core.store import Acquire, Outgoing, Release
    from ...core.task_wait import TaskWait
    from ...core.ticket import Ticket
    from ...errors import SemaphoreError
    from .connection import Word
    from .link import Link


class RedisStore(BringsDurations):
    """Keeps permits in one server of the Redis family.

    A store can be shared between threads and greenlets, and across a fork.
    """

    calls_at_once = 1  # the server makes one call after the other
    one_round_trip = True

    def __init__(self, link: Link, options: StoreOptions = DEFAULTS) -> None:
        self._durations = Durations(options)
        self._keys = Keys(options.prefix)
        self._link = link
        self._runner = Runner(link, self._keys, options, self._durations)
        self._process = ThisProcess()
        self._processes = pack([self._keys.common("processes")])
        self._index = Index(link, self._keys)
        self._short_calls = ShortCalls(self._runner, self._keys, self._durations, options)
        self._hand_on = HandOn(self._runner)
        self._renewer = Renewer(self._runner)
        self._sessions = Sessions(self._runner)
        self._consumed_queues = ConsumedQueues(self._runner, self._keys)

    @property
    def epoch(self) -> int | None:
        """The newest epoch that the server has answered."""
        return self._runner.epoch

    @epoch.setter
    def epoch(self, epoch: int | None) -> None:
        self._runner.epoch = epoch

    def check(self, *, parks: bool = False) -> list[str]:
        absent, epoch = self._keys.common("check"), self._keys.common("epoch")
        with denied_is_misconfigured(absent):
            warnings = self._link.ask(partial(examine, key=absent, parks=parks))
            found = self._link.ask(partial(format_of, epoch=epoch))
            in_force = self._link.ask(partial(durations_of, epoch=epoch))
        warnings += format_warnings(FORMAT if found is None else found)
        return warnings + self._durations.examine(in_force)

    def about(self) -> StoreFacts:
        return self._link.ask(partial(facts_of, epoch=self._keys.common("epoch")))

    def durability(self, most: int) -> Durability:  # noqa: ARG002 - it counts all of them in one step
        names = self._keys.common("names")
        return self._link.ask(partial(durability_of, names=names, moves=self._link.seeks))

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        check_holder(holder, message_id)
        wanted = resource_claims(claims)
        words = acquisition(claims, wanted, holder, wait, message_id)
        call = wanted, words, self._key_of(wanted, message_id)
        answer = self._short_calls.acquire(call, holder, wait, message_id)
        return answers.permit_or_refusal(claims, wanted, holder, answer)

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
        ends = "" if ends_in is None else microseconds(ends_in)
        words = [ticket.text, payload, name, ends, broker, packed(claims), *figures_of(wanted)]
        said = self._runner.run(scripts.ATTACH, wanted, words)
        answers.check_claims(said)
        return self._hand_on.handed_on(wanted, said).outgoing

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        return self._renewer.renew(list(permits))

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        wanted, words, key = resource_claims(claims), [name_of(holder)], NONE
        if message_id is not None:
            words += [message_id.number, str(microseconds(message_id.remember_for))]
            words.append("first" if message_id.is_first else "")
            key = self._key_of(wanted, message_id)
        answer = self._short_calls.release((wanted, words, key), holder, message_id)
        return self._hand_on.handed_on(wanted, answer)

    def call_all(
        self, calls: Sequence[Acquire | Release]
    ) -> list[Answer | HandedOn | SemaphoreError]:
        return Batch(self, self._runner, self._hand_on, self._key_of).answers(calls)

    def reap(self, limit: int = 100) -> Outgoing:
        words: list[Word] = [limit, self._process.name]
        _, names = self._runner.run(scripts.OVERDUE, [], words, (1, self._processes))
        calls: list[Call] = [([ResourceClaim(name.decode(), 0, 0)], ()) for name in names]
        return self._hand_on.all_handed_on(calls, self._runner.run_each(scripts.REAP, calls))

    def end(self, names: Sequence[str]) -> Outgoing:
        outgoing: Outgoing = frozenset()
        for start in range(0, len(names), BATCH):
            outgoing |= self._hand_on.end(names[start : start + BATCH])
        return outgoing

    def promote(self, tickets: Sequence[Ticket], resource: str) -> frozenset[str]:
        promoted, wanted = set[str](), [ResourceClaim(resource, 0, 0)]
        nonces = [ticket.nonce for ticket in tickets]
        for start in range(0, len(nonces), BATCH):
            words = nonces[start : start + BATCH]
            *answer, moved = self._runner.run(scripts.PROMOTE, wanted, words)
            self._hand_on.handed_on(wanted, answer)
            promoted |= set(map(answers.text, moved))
        return frozenset(promoted)

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        words: list[Word] = [BATCH] if broker is None else [BATCH, broker]
        calls: list[Call] = [([ResourceClaim(name, 0, 0)], words) for name in sorted(outgoing)]
        said = self._runner.run_all(scripts.TAKE, calls)
        return [answers.grant(each) for answer in said for each in answer[1]]

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
        calls: list[Call] = []
        for grant in grants:
            words: list[Word] = [grant.ticket.text, grant.token, microseconds(grant.expires_at)]
            words += [] if arrive else ["ends"]
            calls.append((resource_claims(grant.claims), words))
        self._runner.run_all(scripts.SENT, calls)

    def ask(
        self,
        session: str,
        begun: Sequence[HeldWait] = (),
        to_forecast: Sequence[HeldWait] = (),
        *,
        room: int | None = None,
    ) -> SessionReply:
        return self._sessions.ask(session, begun, to_forecast, room)

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
        answer = self._runner.run(
            scripts.SNAPSHOT, [ResourceClaim(resource, 0, 0)], [waiters, skip]
        )
        return answers.snapshot(resource, skip, answer)

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        names = list(resources)
        calls: list[Call] = [([ResourceClaim(name, 0, 0)], [0, 0]) for name in names]
        said = self._runner.run_all(scripts.SNAPSHOT, calls)
        for name, answer in zip(names, said, strict=True):
            yield answers.snapshot(name, 0, answer)

    def waits_of(self, task_id: str) -> list[TaskWait]:
        return waits_of(self._runner, task_id)

    def totals(self, resources: Sequence[str]) -> list[Totals]:
        check_totalled(resources)
        return totals(self._runner, self._keys, resources)

    def resources(self) -> Iterator[str]:
        return self._index.names()

    def declare(self, limits: Mapping[str, int], by: str) -> dict[str, DeclaredLimit]:
        check_declared(limits, by)
        calls: list[Call] = [([ResourceClaim(at, 0, 0)], (n, by)) for at, n in limits.items()]
        said = self._runner.run_all(scripts.DECLARE, calls)
        found = [answers.declaration(each[1]) for each in said]
        return {at: each for at, each in zip(limits, found, strict=True) if each}

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        self._runner.run(scripts.SET_LIMIT, [], [resource, "" if limit is None else limit])
        return self._look_at(resource)

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        length = length_of_pause(resource, lasts)
        words: list[Word] = [resource, "" if length is None else length, ENDLESS]
        _, changed = self._runner.run(scripts.PAUSE, [], words)
        self._look_at(resource)  # O3: each is due at the end; sweeps send what is in an outbox
        return bool(changed)

    def resume(self, resource: str) -> Outgoing:
        check_resource(resource)
        self._runner.run(scripts.RESUME, [], [resource])
        return self._look_at(resource)

    def processes(self) -> dict[int, int]:
        _, names = self._runner.run(scripts.PROCESSES, [], [], (1, self._processes))
        return by_format(map(answers.text, names))

    def decisions(self) -> dict[str, Decision]:
        return answers.decisions(self._runner.run(scripts.DECISIONS, [], []))

    def close(self) -> None:
        self._link.close()

    def _look_at(self, resource: str) -> Outgoing:
        """Hand on at the resource, or at all keys of a semaphore."""
        if resource != semaphore_of(resource):
            return self._hand_on.reap_all([resource])
        # Names are percent-encoded, so they have no special characters of a pattern.
        return self._hand_on.reap_all(
            [n for n in self._index.names(f"{resource}*") if semaphore_of(n) == resource]
        )

    def set_lease(self, lease: float, take_up: float | None = None) -> None:
        in_force = new_durations(lease, take_up)
        self._runner.run(scripts.SET_LEASE, [], in_force)
        self._durations.examine(in_force)

    def _key_of(
        self, wanted: list[ResourceClaim], message_id: MessageId | None
    ) -> tuple[int, bytes]:
        """Return the key of the record of a task's messages."""
        if message_id is None:
            return NONE
        return 1, pack([self._keys.messages(wanted[0].resource, message_id.task)])
