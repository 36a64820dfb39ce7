"""Keep permits in PostgreSQL: each call is one function, in one transaction and one round trip."""

from __future__ import annotations

import json
import random
import time
from itertools import islice
from typing import TYPE_CHECKING

from ...core.formats import NewerFormat
from ...core.permit import (
    Answer,
    Claim,
    Grant,
    Kind,
    MessageId,
    Permit,
    Renewal,
    Renewals,
    Snapshot,
    Wait,
)
from ...core.session import NAMED, Standing
from ...core.ticket import TicketFields
from ...errors import SemaphoreError
from ..encoding import (
    ROUNDS,
    check_holder,
    check_limit,
    check_name,
    check_ticket,
    microseconds,
    packed,
    resource_claims,
    seconds,
)
from . import answers
from .answers import texts
from .broken import Broken
from .connection import Parameter, Row, is_one_resources, passed_over_if_busy
from .health import examine
from .link import Link
from .names import stored
from .questions import asked, brought_by, named, published, renewed
from .schema import SchemaName, install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ...core.session import HeldWait, Turns
    from ...core.store import Outgoing

_ANYHOW = Wait(Kind.REQUEUE)
BATCH = 100  # resources or permits in one call; more would delay others
SEEN = 20  # snapshots in one call: it counts their lines within one timeout
SHORTEST = 20  # milliseconds to wait for a lock of another call
BUSY = "busy"  # answer instead of a renewal: another call has locked the resource
TAKEN = 500  # messages of one resource in one call
PAGE = 1000  # names in one call


class PostgresStore:
    """Keeps permits in one database of a PostgreSQL server.

    ``take_up`` is how long the grant of a sent message lasts (default: a lease). ``now`` replaces the server's clock,
    for tests only. ``keeps`` returns whether connections stay open between calls. ``origin`` names the setting of the
    parameters in error texts. A store can be shared between threads and greenlets, and across a fork.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        place: SchemaName = SchemaName(),  # noqa: B008 - frozen
        lease: float = 30.0,
        take_up: float | None = None,
        timeout: float = 2.0,
        epoch: int | None = None,
        now: Callable[[], float] | None = None,
        origin: str = "semaphore_url",
        keeps: Callable[[], bool] = lambda: True,
    ) -> None:
        self.lease = lease
        self.epoch = epoch
        self._link = Link(parameters, timeout, origin=origin, keeps=keeps)
        self._place = place
        self._durations = [microseconds(lease), microseconds(take_up or lease)]
        self._lock_timeout = round(timeout * 1000)  # milliseconds to wait for a lock
        self._now = now
        self._broken = Broken()

    def check(self, *, parks: bool = False) -> list[str]:
        return examine(self._link, self._place, parks=parks)

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        check_holder(holder, message_id)
        wanted, how = resource_claims(claims), wait or _ANYHOW
        ticket = wait.ticket if wait and TicketFields.parse(wait.ticket) else ""
        (answer,) = self._run(
            "acquire",
            stored(holder),
            stored(ticket or ""),
            str(wait.kind) if wait else "",
            how.priority,
            microseconds(how.shortest),
            microseconds(how.longest),
            how.jitter,
            None if how.timeout is None else microseconds(how.timeout),
            stored(how.session),
            microseconds(how.keeps),
            packed(claims) if wait else "",
            *brought_by(message_id),
            [ask.resource for ask in wanted],
            [ask.limit for ask in wanted],
            [ask.weight for ask in wanted],
        )
        epoch, token, since, ends, *refusal = answer
        self.epoch = int(epoch)
        if token is None:
            return answers.refusal(claims, wanted, refusal)
        return Permit(holder, int(token), tuple(claims), seconds(since), seconds(ends), self.epoch)

    def attach(
        self,
        ticket: str,
        claims: Sequence[Claim],
        payload: bytes,
        *,
        name: str = "",
        ends_in: float | None = None,
    ) -> Outgoing:
        check_ticket(ticket)
        check_name("message", name)
        wanted = resource_claims(claims)
        ends = None if ends_in is None else microseconds(ends_in)
        resources = [ask.resource for ask in wanted]
        limits, weights = [ask.limit for ask in wanted], [ask.weight for ask in wanted]
        words = (stored(ticket), payload, stored(name), ends, packed(claims))
        said = self._run("attach", *words, resources, limits, weights)
        return self._handed_on(resources, said)

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        permits, renewals = list(permits), Renewals()
        for start in range(0, len(permits), BATCH):
            renewals |= self._renewed(permits[start : start + BATCH])
        busy = [permit for permit in permits if permit.holder not in renewals]
        return renewals | self._renewed_in_turn(busy)

    def _renewed(self, permits: list[Permit], lock_timeout: int | None = None) -> Renewals:
        """Renew them in one call; without ``lock_timeout`` those that another call has locked get no answer."""
        asked = json.dumps([renewed(each) for each in permits]), lock_timeout is not None
        try:
            ((epoch, became),) = self._run("renew", *asked, lock_timeout=lock_timeout)
            self.epoch = int(epoch)
        except NewerFormat:
            ((became,),) = self._in_newer("renew", *asked, lock_timeout=lock_timeout)
        answered = zip(permits, texts(became), strict=True)
        return {each.holder: Renewal(word) for each, word in answered if word != BUSY}

    def _renewed_in_turn(self, busy: list[Permit]) -> Renewals:
        """Renew permits on locked resources one by one, all together within the time of one answer.

        A busy resource is free again in a moment; a stuck one must cost no other permit its lease.
        """
        renewals = Renewals()
        until = time.monotonic() + self._lock_timeout / 1000
        lock_timeout = max(SHORTEST, self._lock_timeout // (len(busy) + 1))
        for permit in random.sample(busy, len(busy)):  # else the same ones would always be too late
            if time.monotonic() > until:
                break
            with passed_over_if_busy():
                renewals |= self._renewed([permit], lock_timeout)
        return renewals

    def release(
        self, holder: str, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> Outgoing:
        resources = [ask.resource for ask in resource_claims(claims)]
        words = (stored(holder), *brought_by(message_id), resources)
        try:
            return self._handed_on(resources, self._run("release", *words))
        except NewerFormat:
            self._in_newer("release", *words)
            return frozenset()  # a newer worker hands on

    def reap(self, limit: int = 100) -> Outgoing:
        try:
            ((names,),) = self._call("overdue", self._clock(), self._durations[0], limit)
            return self._looked_at(texts(names))
        except NewerFormat:
            return frozenset()  # newer workers reap

    def end(self, names: Sequence[str]) -> Outgoing:
        outgoing: Outgoing = frozenset()
        for start in range(0, len(names), BATCH):
            some = [stored(name) for name in names[start : start + BATCH]]
            for _ in range(ROUNDS):
                ((epoch, moved, needed, found),) = self._run("end", some)
                outgoing |= self._handed_on(texts(found), [[epoch, "f", needed, found]])
                if moved != "t":
                    break
        return outgoing

    def promote(self, tickets: Sequence[str], resource: str) -> Outgoing:
        outgoing: Outgoing = frozenset()
        nonces = [stored(check_ticket(ticket).nonce) for ticket in tickets]
        for start in range(0, len(nonces), BATCH):
            handed = self._run("promote", resource, nonces[start : start + BATCH])
            outgoing |= self._handed_on([resource], handed)
        return outgoing

    def take(self, outgoing: Outgoing) -> list[Grant]:
        names = sorted(outgoing)
        grants: list[Grant] = []
        for start in range(0, len(names), BATCH):
            grants += map(answers.grant, self._run("take", names[start : start + BATCH], TAKEN))
        return grants

    def sent(self, grants: Sequence[Grant]) -> None:
        for start in range(0, len(grants), BATCH):
            some = grants[start : start + BATCH]
            ((epoch,),) = self._run("sent", json.dumps([published(each) for each in some]))
            self.epoch = int(epoch)

    def ask(
        self, session: str, begun: Sequence[HeldWait] = (), look: Sequence[HeldWait] = ()
    ) -> Turns:
        check_name("session", session)
        try:
            return self._asked(session, begun, look, self._lock_timeout // 4)
        except SemaphoreError as error:
            if not (begun and is_one_resources(error)):
                raise
        # A stuck resource must not put the session to sleep.
        return self._asked(session, (), look)

    def _asked(
        self,
        session: str,
        begun: Sequence[HeldWait],
        look: Sequence[HeldWait],
        lock_timeout: int | None = None,
    ) -> Turns:
        words = stored(session), *asked(begun, look)
        (answer,) = self._run("ask", *words, lock_timeout=lock_timeout)
        turns = answers.turns(answer)
        self.epoch = turns.epoch
        return turns

    def sleep(self, session: str) -> None:
        ((epoch,),) = self._run("sleep", stored(session))
        self.epoch = int(epoch)

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[str, Standing]:
        check_name("session", session)
        standings: dict[str, Standing] = {}
        waits = waits[:NAMED]
        for start in range(0, len(waits), BATCH):
            some = waits[start : start + BATCH]
            told = json.dumps([named(wait) for wait in some])
            ((epoch, found),) = self._run("name", stored(session), told)
            self.epoch = int(epoch)
            words = zip(some, texts(found), strict=True)
            standings |= {wait.ticket: Standing(word) for wait, word in words}
        return standings

    def snapshot(self, resource: str, waiters: int = 100, skip: int = 0) -> Snapshot:
        ((epoch, seen),) = self._run("snapshot", resource, waiters, skip)
        self.epoch = int(epoch)
        return answers.snapshot(resource, skip, seen)

    def snapshots(self, resources: Iterable[str]) -> Iterator[Snapshot]:
        names = iter(resources)
        for name in islice(names, 1):
            # Alone: it may begin a new epoch, and other calls would wait until the end of a whole batch.
            yield self.snapshot(name, waiters=0)
        while some := list(islice(names, SEEN)):
            for name, (epoch, seen) in zip(some, self._run("snapshots", some), strict=True):
                self.epoch = int(epoch)
                yield answers.snapshot(name, 0, seen)

    def resources(self) -> Iterator[str]:
        last = ""
        while True:
            ((found,),) = self._call("resources", last, PAGE)
            names = texts(found)
            yield from names
            if len(names) < PAGE:
                return
            last = names[-1]

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        ((concerned,),) = self._call("set_limit", resource, limit)
        return self._looked_at(texts(concerned))

    def limits(self) -> dict[str, int]:
        return {name: int(limit) for name, limit in self._call("limits")}

    def install(self) -> list[int]:
        """Create the missing tables and functions; return their versions."""
        return install(self._link, self._place)

    def script(self) -> str:
        """Return the script that ``install`` runs in an empty database."""
        return self._place.script()

    def close(self) -> None:
        self._link.close()

    def _in_newer(
        self, operation: str, *parameters: Parameter, lock_timeout: int | None = None
    ) -> list[Row]:
        """Call an operation that is still allowed in a store of a newer format."""
        lease, _ = self._durations
        waits = self._lock_timeout if lock_timeout is None else lock_timeout
        return self._call(f"{operation}_newer", self._clock(), lease, waits, *parameters)

    def _looked_at(self, names: list[str]) -> Outgoing:
        """Reap these resources; skip those that another call has locked, which become overdue again."""
        try:
            return self._look_at(names, self._lock_timeout // 4)  # before the answer counts as lost
        except SemaphoreError as error:
            if not is_one_resources(error):
                raise
        outgoing: Outgoing = frozenset()
        for name in names:
            with passed_over_if_busy(), self._broken.passed_over(name):
                outgoing |= self._look_at([name], SHORTEST)
        return outgoing

    def _look_at(self, names: list[str], lock_timeout: int | None = None) -> Outgoing:
        outgoing: Outgoing = frozenset()
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            outgoing |= self._handed_on(some, self._run("reap", some, lock_timeout=lock_timeout))
        return outgoing

    def _handed_on(self, names: list[str], said: list[Row]) -> Outgoing:
        """Continue the hand-on until it is done; return the resources with messages to send.

        A head with claims on other resources is tried in a call that declares them all.
        """
        outgoing: Outgoing = frozenset()
        for _ in range(ROUNDS):
            ((epoch, again, needed, found),) = said
            self.epoch = int(epoch)
            outgoing |= frozenset(texts(found))
            more = texts(needed)
            if again != "t" and not more:
                break
            # Hand on at the given resources first.
            names = list(dict.fromkeys([*names, *more]))
            said = self._run("reap", names)
        return outgoing

    def _run(
        self, operation: str, *parameters: Parameter, lock_timeout: int | None = None
    ) -> list[Row]:
        """Call an operation with the clock, the durations and the epoch."""
        waits = self._lock_timeout if lock_timeout is None else lock_timeout
        moment = (self._clock(), *self._durations, self.epoch, waits)
        return self._call(operation, *moment, *parameters)

    def _call(self, operation: str, *parameters: Parameter) -> list[Row]:
        return self._link.call(self._place.function(operation), parameters)

    def _clock(self) -> int | None:
        return None if self._now is None else microseconds(self._now())
