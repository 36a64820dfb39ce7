"""Run each call on an engine over documents, and save what it changed by compare-and-swap.

No document is locked between a read and a commit: a client that stops there keeps no other waiting. If one of the
documents was changed meanwhile, the call is made again on what is there then.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

from ...core.claim import OtherClaims
from ...core.parking import OversizedMessage
from ...core.permit import Renewals
from ...core.refusal import Reason, Refusal
from ...core.session import NAMED
from ..decisions import check_limit, check_resource, length_of_pause
from ..durations import Durations
from ..encoding import check_holder, check_name, microseconds, resource_claims
from ..engine.codec import decode_payload, encode_name, encode_payload
from ..engine.engine import Engine
from ..engine.store import EngineStore, named
from ..options import DEFAULTS, StoreOptions
from ..processes import SEEN_FOR_S, ThisProcess, by_format
from .attempts import Attempts, NotKept, repeated
from .documents import KNOWN, PROCESS, RESOURCE, STORE, TOMBSTONE, Busy, Document, Key
from .hints import payload_key, wait_key
from .state import LONGEST_LINE, LoadedState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ...core.claim import Claim
    from ...core.grant import Grant
    from ...core.message_id import MessageId
    from ...core.permit import Permit
    from ...core.refusal import Answer
    from ...core.session import HeldWait, Standing
    from ...core.store import Outgoing
    from ...core.ticket import Ticket
    from ...core.wait import Wait
    from .documents import Documents, Transaction

T = TypeVar("T")
Made: TypeAlias = "Callable[[Engine, LoadedState], T]"

CHANGED = "another client changed the same documents each time"
NO_LINE = (
    "The line of %s is as long as this store keeps one, %d waits or fewer large ones: a further task has no place, and"
    " comes back when a permit may be free. Use another store for so many, or semaphore keys with shorter lines."
)
NO_MESSAGE = (
    "The store has lost the parked message of %s, which waited for %s: its task will not run."
)
_IN_LINE = frozenset({Reason.SATURATED, Reason.PAUSED, Reason.UNSATISFIABLE, Reason.RECOVERING})
logger = logging.getLogger(__name__)


@dataclass
class How:
    """How the attempts of a call are made."""

    concerned: Collection[str]  # the resources that it will look at
    due: Collection[str] = ()  # those that it shall reap
    anew: Collection[str] = ()  # those that it writes even if it changes nothing
    parks: bool = False
    expected: Collection[Key] = ()  # what it reads after its resources


class DocumentStore(EngineStore):
    """Keeps permits in documents of any server that compares and swaps."""

    calls_at_once = 4  # one that is repeated must not stop all others
    one_round_trip = False

    def __init__(self, documents: Documents, options: StoreOptions = DEFAULTS) -> None:
        self.epoch: int | None = None
        self._documents = documents
        self._timeout = options.timeout
        self._durations = Durations(options)
        self._process = ThisProcess()
        self._told_of_line = False
        self._busy: Collection[frozenset[str]] = ()  # what the last renewal has left

    # -- calls

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        check_holder(holder, message_id)
        answer = self._made(
            lambda engine, _: engine.acquire(claims, holder, wait, message_id),
            named(claims),
            expected=_read_by_acquire(claims, holder, wait, message_id),
        )
        if wait and not self._told_of_line and _is_without_place(answer):
            self._told_of_line = True
            logger.warning(NO_LINE, answer.claim.resource, LONGEST_LINE)
        return answer

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
        """Keep the message in a document of its own; the record of its wait has a reference to it."""
        check_name("message", name)
        check_name("broker", broker)
        most = self._documents.largest_payload
        if most is not None and len(payload) > most:
            raise OversizedMessage(len(payload), most, of_store=True)
        body = encode_payload(payload)

        def attached(engine: Engine, loaded: LoadedState) -> Outgoing:
            # Each attempt has its own, so that what one in vain has left can be deleted at any time.
            reference = token_hex(16).encode()
            outgoing = engine.attach(
                ticket, claims, reference, name=name, ends_in=ends_in, broker=broker
            )
            # Not if it has raised ``OtherClaims``.
            loaded.marks[payload_key(reference)] = Document(body)
            return outgoing

        return self._made(attached, named(claims), parks=True)

    def take(self, outgoing: Outgoing, broker: str | None = None) -> list[Grant]:
        """Take the messages of each resource by themselves; one that is busy is left to the next reap."""
        taken: list[Grant] = []
        left = sorted(outgoing)
        for name in left:
            try:
                grants, lost = self._made(partial(_taken, name=name, broker=broker), [name])
            except NotKept:
                if not taken and name == left[-1]:
                    raise
                continue
            taken += grants
            for nonce in lost:
                logger.error(NO_MESSAGE, nonce, name)
        return taken

    def sent(self, grants: Sequence[Grant], *, arrive: bool = True) -> None:
        """Note each grant by itself, and name its resources: a call that is alone locks those."""
        for grant in grants:
            self._call(partial(_sent, grant=grant, arrive=arrive), named(grant.claims))

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        """Renew the permits of each resource by themselves: a busy one costs no other its lease.

        A permit of a resource that stays busy gets no answer; the next call tries it after the others.
        """
        left: dict[frozenset[str], list[Permit]] = {}
        for permit in permits:
            left.setdefault(frozenset(named(permit.claims)), []).append(permit)
        with self._within(self._timeout):
            return self._renewed(left)

    def _renewed(self, left: dict[frozenset[str], list[Permit]]) -> Renewals:
        attempts, found, reasons = Attempts(self._timeout), Renewals(), dict[frozenset[str], str]()
        while left:
            for names in sorted(left, key=self._busy.__contains__):
                alone = attempts.made >= self._documents.alone_after
                try:
                    found |= self._attempt(
                        partial(_renewed, permits=left[names]), How(names), alone=alone
                    )
                    del left[names]
                except Busy as error:
                    reasons[names] = str(error)
                    if attempts.over():
                        break
            self._busy = left.keys() & reasons.keys()
            if left and not self._may_go_on(attempts, found, reasons):
                break
        return found

    def _may_go_on(
        self, attempts: Attempts, found: Renewals, reasons: Mapping[frozenset[str], str]
    ) -> bool:
        """Wait for the next attempt; return whether there is time for one, or raise if nothing was renewed at all."""
        try:
            attempts.wait([*reasons.values()][-1])
        except NotKept:
            if not found:
                raise
            return False
        return True

    def name(self, session: str, waits: Sequence[HeldWait]) -> dict[Ticket, Standing]:
        """Name the waits of each resource by themselves: that they stand again is no decision about all."""
        found: dict[Ticket, Standing] = {}
        together: dict[frozenset[str], list[HeldWait]] = {}
        for wait in waits[:NAMED]:
            together.setdefault(frozenset(named(wait.claims)), []).append(wait)
        for some in together.values():
            found |= super().name(session, some)
        return found or super().name(session, [])

    def reap(self, limit: int = 100) -> Outgoing:
        """Reap each resource by itself; one that is busy stays due, and others end there what is overdue."""
        now = self._made(self._seen)
        due = repeated(lambda _: self._documents.sweep(now, limit), self._timeout)
        outgoing: Outgoing = frozenset()
        for name in due:
            with suppress(NotKept):
                outgoing |= self._made(_reaped, [name], due=[name], timeout=self._timeout / 4)
        return outgoing

    def processes(self) -> dict[int, int]:
        return by_format(self._made(lambda _, loaded: loaded.names_of(PROCESS)))

    def _seen(self, engine: Engine, loaded: LoadedState) -> int:
        """Note that this process reaps; return the time."""
        engine.enter()
        now, name = loaded.now, self._process.name
        expires = now + max(microseconds(SEEN_FOR_S), engine.state.lease)
        loaded.marks[Key(PROCESS, item=name)] = Document(encode_name(name), expires=expires)
        return now

    def restored(self) -> None:
        """Begin an epoch: what is here is of before, and permits were admitted since."""
        self._call(lambda engine: engine.restored())

    # -- operators: what they decide is written first, and then each resource anew, so that a call which read the
    # decision of before is repeated

    def set_limit(self, limit: int | None, resource: str) -> Outgoing:
        check_limit(limit, resource)
        self._call(lambda engine: engine.decide_limit(limit, resource))
        return self._written_anew(resource)

    def pause(self, resource: str, lasts: float | None = None) -> bool:
        length = length_of_pause(resource, lasts)
        changed = self._call(lambda engine: engine.decide_pause(resource, length))
        self._written_anew(resource)
        return changed

    def resume(self, resource: str) -> Outgoing:
        check_resource(resource)
        self._call(lambda engine: engine.decide_resume(resource))
        return self._written_anew(resource)

    def _written_anew(self, resource: str) -> Outgoing:
        """Write the resource, or all keys of the semaphore, and hand on."""
        outgoing: Outgoing = frozenset()
        for name in {resource, *self._call(lambda engine: engine.named(resource))}:
            outgoing |= self._made(partial(_looked_at, name=name), [name], anew=[name])
        return outgoing

    # -- attempts

    def _call(self, made: Callable[[Engine], T], concerned: Iterable[str] = ()) -> T:
        return self._made(lambda engine, _: made(engine), concerned)

    def _made(
        self,
        made: Made[T],
        concerned: Iterable[str] = (),
        *,
        due: Collection[str] = (),
        anew: Collection[str] = (),
        timeout: float | None = None,
        parks: bool = False,
        expected: Collection[Key] = (),
    ) -> T:
        """Make a call until an attempt is kept; after several ones in vain, while others do not write."""
        how = How([*concerned], due, anew, parks=parks, expected=expected)
        alone_after = self._documents.alone_after
        timeout = timeout or self._timeout
        with self._within(timeout):
            return repeated(
                lambda before: self._attempt(made, how, alone=before >= alone_after), timeout
            )

    def _within(self, timeout: float) -> AbstractContextManager[object]:
        """Bound the time that the requests of a call take, where one of them may take as long as a call."""
        del timeout
        return nullcontext()

    def _attempt(self, made: Made[T], how: How, *, alone: bool) -> T:
        """Make a call on what is there now, and save what it changed; raise ``Busy`` if that was changed meanwhile.

        All is read anew: what an earlier attempt or call has read may have changed, and is not compared if this one
        does not write it.
        """
        keys = [Key(STORE), *(Key(RESOURCE, name) for name in how.concerned)]
        transaction = self._documents.begin(
            keys, alone=alone, parks=how.parks, expected=how.expected
        )
        try:
            short = self._are_short([transaction.get(key) for key in keys[1:]])
            loaded = LoadedState(transaction, how.due, how.anew, short=short)
            return self._kept(transaction, made, loaded)
        finally:
            transaction.end()

    def _are_short(self, bodies: Iterable[bytes | None]) -> bool:
        most = self._documents.largest_line
        return most is None or all(len(body or b"") <= most for body in bodies)

    def _kept(self, transaction: Transaction, made: Made[T], loaded: LoadedState) -> T:
        engine = Engine(loaded.state, transaction.now, self.epoch, self._durations.in_force)
        other_claims: OtherClaims | None = None
        try:
            answer = made(engine, loaded)
        except OtherClaims as error:
            other_claims = (
                error  # what the call noted before is kept, such as limits that it declares
            )
        changes, marks = loaded.changes()
        if (changes or marks) and not transaction.commit(changes, marks):
            raise Busy(CHANGED)
        self._learn(engine)
        if other_claims:
            raise other_claims
        return answer

    def _learn(self, engine: Engine) -> None:
        self.epoch = engine.epoch
        self._durations.adopt(engine.in_force)  # A16


def _read_by_acquire(
    claims: Sequence[Claim], holder: str, wait: Wait | None, message_id: MessageId | None
) -> list[Key]:
    """Return what an acquire reads after its resources; none of it is compared by being read before."""
    carried = wait.ticket if wait else None
    known = [Key(KNOWN, resource_claims(claims)[0].resource, message_id.task)] if message_id else []
    tombstones = [Key(TOMBSTONE, name, holder) for name in named(claims)]
    return [*known, *tombstones, wait_key(carried.nonce if carried else holder)]


def _is_without_place(answer: Answer) -> TypeGuard[Refusal]:
    """Return whether the holder would wait, but the line is too long for it."""
    return isinstance(answer, Refusal) and not answer.ticket and answer.reason in _IN_LINE


def _taken(
    engine: Engine, loaded: LoadedState, *, name: str, broker: str | None
) -> tuple[list[Grant], list[str]]:
    """Take the messages of one resource, which are in documents of their own; end each wait that has lost its own.

    A message that was sent since this attempt read the wait is no lost one: the resource has changed, too.
    """
    grants: list[Grant] = []
    lost: list[str] = []
    for grant in engine.take(frozenset({name}), broker):
        if body := loaded.get(payload_key(grant.payload)):
            grants.append(replace(grant, payload=decode_payload(body)))
        else:
            engine.release(grant.ticket, grant.claims)
            lost.append(grant.ticket.nonce)
    return grants, lost


def _renewed(engine: Engine, _: LoadedState, *, permits: Sequence[Permit]) -> Renewals:
    return engine.renew(permits)


def _reaped(engine: Engine, _: LoadedState) -> Outgoing:
    return engine.reap(1)


def _looked_at(engine: Engine, _: LoadedState, *, name: str) -> Outgoing:
    return engine.look_at(name)


def _sent(engine: Engine, *, grant: Grant, arrive: bool) -> None:
    engine.sent([grant], arrive=arrive)
