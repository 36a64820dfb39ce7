"""Random calls on three stores at once; a failure is printed as the shortest program that shows it.

Tasks are letters. Each delivery of one is a holder of its own, such as ``a:2``; its ticket, its permit and its message
go with the letter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from celery_semaphore.core.claim import Claim, OtherClaims
from celery_semaphore.core.grant import Grant
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.lease import BEATS
from celery_semaphore.core.permit import Permit, Renewal, Renewals
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.snapshot import Held, Snapshot
from celery_semaphore.core.store import HandedOn, Outgoing, Store
from celery_semaphore.core.wait import Kind
from celery_semaphore.stores.encoding import microseconds
from tests.conformance.acquisition import limits_set
from tests.conformance.suite import LEASE, TAKE_UP

from .promises import Promises
from .task import CALLER, CLAIMS, HOLDER, REACHABLE, SESSIONS, SEVERAL, WAITS, Task
from .trio import Learnt, Trio, in_order

Answer = TypeVar("Answer")
KEPT = Learnt(None, (microseconds(LEASE), microseconds(TAKE_UP)))  # by a first caller
OTHER = Learnt(None, (microseconds(LEASE / 10), microseconds(TAKE_UP / 10)))
RESOURCES = ("api", "disk/x", "pool")
DECLARED = (*RESOURCES, all_keys_of("disk/x"))  # also for all keys (A18)
QUEUES = ("celery", "celery.granted")
MANY = 6  # deliveries: before so many there is not much that a fault could take
BEGINNING = 2_000_000_000.0
# All that is idle for ten leases may be forgotten, and each store does so in its own time.
LONGEST_RUN_S = 8 * LEASE
# Added to each step of the clock, so that no forecast, which each store rounds differently, ends with a step.
ODD_S = 0.000_037
ROUNDS = 40  # of reaping until all is over: each frees at least one permit

NAMES = "abcde"
tasks = st.sampled_from(NAMES)
claims = st.sampled_from(list(CLAIMS))
# Of waits beside single ones: what each claims, and how it waits.
besides: st.SearchStrategy[list[tuple[str, str]]] = st.just([]) | st.lists(
    st.tuples(st.sampled_from([*SEVERAL, "api", "disk"]), st.sampled_from(REACHABLE)),
    min_size=2,
    max_size=3,
)
waits = st.sampled_from(list(WAITS))
sessions = st.sampled_from(SESSIONS)
queues = st.sampled_from(QUEUES)
rooms = st.sampled_from([None, 0, 1, 2])
holders = st.runner().flatmap(lambda machine: st.sampled_from(machine.holding()))
known_ends = st.runner().flatmap(lambda machine: st.sampled_from(machine.ends()))
known_tasks = st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.tasks)))
waiting_tasks = st.runner().flatmap(lambda machine: st.sampled_from(machine.waiting()))
calling_tasks = st.runner().flatmap(lambda machine: st.sampled_from(machine.calling()))
parked_tasks = st.runner().flatmap(lambda machine: st.sampled_from(machine.with_messages()))
nexts = st.sampled_from(["sent", "taken", "left"])  # what becomes of a message that is handed on
messages = st.sampled_from(["none", "first", "next", "again"])


def reaped(store: Store) -> Outgoing:
    """Look at each resource, in this order, before the store reaps in its own, where some are not due yet."""
    limits = limits_set(store)
    looked_at = [store.set_limit(limits.get(name), name) for name in RESOURCES]
    return store.reap().union(*looked_at)


def asked(store: Store, task: Task) -> Permit | Refusal | tuple[Claim, ...]:
    """Acquire; return the claims that the wait of the task has, if they are others."""
    try:
        return store.acquire(task.claims, task.holder, task.wait, task.message_id)
    except OtherClaims as others:
        return others.claims


def renewed(store: Store, permits: list[Permit]) -> Renewals:
    """Renew, and end what is overdue: Redis renews without a look at the line, the others end it first."""
    answers = store.renew(permits)
    reaped(store)
    return answers


class Stores(RuleBasedStateMachine):
    """The rules are what workers, operators, clocks and faults do, in any order."""

    trio: Trio

    def __init__(self) -> None:
        super().__init__()
        self.trio.forget()
        self.clock = self.trio.clock
        self.begun = self.clock.now = BEGINNING
        self.learnt = dict.fromkeys("xy", KEPT)
        self.questions = 0
        self.unused = True  # no call since the stores were empty
        self.client = "x"
        self.deliveries = 0  # since a server forgot
        self.tasks: dict[str, Task] = {}
        self.promises = Promises()
        self.seen: list[Snapshot] = []  # by the last call
        self.ends_at: dict[tuple[str, str], float] = {}  # of what lasts, or is overdue
        self.taken: list[tuple[Grant, set[bytes]]] = []  # with the messages that it stands for
        self.parked: set[bytes] = set()  # messages that the store must not lose
        self.nonces: dict[bytes, str] = {}  # of the waits that they were attached to
        self.sent_for: set[str] = set()  # the nonces of messages that the broker has

    def ask(self, question: Callable[[Store], Answer]) -> Answer:
        """Ask as the present client, and look at all resources in the same instant."""
        self.questions += 1
        task = NAMES[self.questions % len(NAMES)]
        (answer, seen, totals, waits), self.learnt[self.client] = self.trio.ask(
            lambda store: (
                question(store),
                [store.snapshot(name) for name in RESOURCES],
                store.totals(RESOURCES),
                store.waits_of(task),
            ),
            self.learnt[self.client],
        )
        self.unused = False
        self.promises.check_waits(task, waits, seen)
        for each, counts in zip(seen, totals, strict=True):
            self.promises.check(each)
            assert (counts.held + counts.granted, counts.waiting) == (each.occupied, each.waiting)
        self.seen = seen
        overdue = {each: end for each, end in self.ends_at.items() if end <= self.clock.now}
        lasting = {
            (each.resource, held.holder): held.expires_at for each in seen for held in each.holders
        }
        self.ends_at = overdue | lasting
        return answer

    def hand_on(self, question: Callable[[Store], HandedOn | Outgoing], then: str = "left") -> None:
        """Ask, and take the messages that are handed on, and send them; or die before that.

        A store may name a resource that has no message any more.
        """

        def taken(store: Store) -> tuple[list[str], list[Grant]]:
            answer = question(store)
            handed = answer if isinstance(answer, HandedOn) else HandedOn(answer)
            grants = [] if then == "left" else in_order(store.take(handed.outgoing))
            return sorted(handed.granted), grants

        for grant in self.ask(taken)[1]:
            self.taken.append((grant, self._messages_of(grant.payload[:1])))
        while then == "sent" and self.taken:
            self._sent()

    def waiting(self) -> list[str]:
        return sorted(name for name, task in self.tasks.items() if task.ticket)

    def calling(self) -> list[str]:
        return [name for name in self.waiting() if self.tasks[name].calls]

    def holding(self) -> list[str]:
        """All that have permits; the last deliveries too, which may be released for a second time."""
        held = (each.holder for seen in self.seen for each in seen.holders if not each.granted)
        return sorted({*held, *(task.holder for task in self.tasks.values())})

    def ends(self) -> list[float]:
        """When permits, grants, pauses and the window end, the first of all the present moment.

        None is later than the longest run: by then an idle resource may be forgotten.
        """
        found = {(self.clock.now // LEASE + 1) * LEASE}
        found |= {each.expires_at for seen in self.seen for each in seen.holders}
        found |= {seen.paused_until for seen in self.seen if seen.paused_until} - {inf}
        latest = self.begun + LONGEST_RUN_S
        ends = {max(end, self.clock.now) for end in found if end < latest}
        return sorted(ends | {self.clock.now})

    def with_messages(self) -> list[str]:
        """Those with messages that were not sent yet, or else those that ever had one."""
        parked = {each[:1].decode() for each in self.parked}
        return sorted(parked or {name for name, task in self.tasks.items() if task.names})

    def task(self, name: str) -> Task:
        return self.tasks.setdefault(name, Task(name))

    # What workers do.

    @initialize(claims=claims, waiting=st.lists(waits, max_size=2), beside=besides)
    def begin(self, claims: str, waiting: list[str], beside: list[tuple[str, str]]) -> None:
        """One has a permit, and others may wait: else most of a program would pass before anybody does.

        Or all semaphores are in use, and tasks with several claims wait beside others (H12).
        """
        if beside:
            self.ask_for_grants(HOLDER, begun=False)
            self.deliver("d", "api", "not", message="none", heard=True)
            self.deliver("e", "disk", "not", message="none", heard=True)
            self.advance(1.0)
            for task, (each, wait) in zip("abc", beside, strict=False):
                self.deliver(task, each, wait, message="none", heard=True)
            return
        for task, wait in zip("abc", ["not", *waiting], strict=False):
            self.deliver(task, claims, wait, message="none", heard=True)

    @rule(task=tasks, claims=claims, wait=waits, message=messages, heard=st.booleans())
    def deliver(self, task: str, claims: str, wait: str, message: str, heard: bool) -> None:
        """A delivery without our header; perhaps the answer is lost."""
        self.task(task).deliver(claims, wait, message)
        self._ask_and_park(self.task(task), heard=heard)

    @precondition(lambda self: self.waiting())
    @rule(task=waiting_tasks, claims=st.none() | claims, wait=waits, message=messages)
    def come_back(self, task: str, claims: str | None, wait: str, message: str) -> None:
        """A delivery with the ticket, and now and then with other claims than before."""
        self.task(task).deliver(claims, wait, message, header=True)
        self._ask_and_park(self.task(task))

    def _ask_and_park(self, task: Task, *, heard: bool = True) -> None:
        self.deliveries += 1
        answer = self._acquire(task, heard=heard)
        if heard and task.parks and isinstance(answer, Refusal) and answer.ticket:
            self._attach(task)

    @precondition(lambda self: self.tasks)
    @rule(task=known_tasks, twice=st.booleans())
    def ask_again(self, task: str, twice: bool) -> None:
        """The same holder asks the same once more, as after a lost answer; each time it gets the same.

        Not once its message was sent, for it heard its answer before it parked that. Redis admits a call that is
        so late beside the grant of the message, the others let it take up that grant: either way nobody has that
        permit, for one lease.
        """
        one = self.task(task)
        if self.clock.now < one.known_until and one.holder not in self.sent_for:
            first = self._acquire(one, heard=not twice)
            if twice:
                self._is_the_same(first, self._acquire(one))

    @precondition(lambda self: self.calling())
    @rule(task=calling_tasks, taken_up=st.booleans())
    def call_again(self, task: str, taken_up: bool) -> None:
        """A call asks again with its ticket, and keeps the room that it found meanwhile (A20)."""
        one = self.task(task)
        if self.clock.now < one.known_until:
            if taken_up:
                self.ask_for_grants(CALLER, begun=True)
            one.ask_with_ticket()
            self._acquire(one)

    @rule(resource=st.sampled_from(DECLARED), limit=st.integers(1, 4), worker=tasks)
    def declare(self, resource: str, limit: int, worker: str) -> None:
        """A worker says the limit of its tasks, which may be idle."""
        self.promises.declare([Claim("", None, limit, resource=resource)], self.clock.now)
        self.ask(lambda store: store.declare({resource: limit}, worker))

    def _acquire(self, task: Task, *, heard: bool = True) -> Permit | Refusal:
        if task.wait and task.wait.kind is Kind.BLOCK:
            # A refusal wakes the session of a call; PostgreSQL does so before it knows whether it refuses.
            self.ask_for_grants(CALLER, begun=False)
        self.promises.declare(task.claims, self.clock.now)
        answer = self.ask(lambda store: asked(store, task))
        if isinstance(answer, tuple):  # A19: the worker asks again with the claims of the wait
            task.keep(answer)
            return self._acquire(task, heard=heard)
        if isinstance(answer, Permit):
            task.known_until = min(task.known_until, answer.expires_at + LEASE)
            self._is_over(task.name)
        elif answer.reason in (Reason.COPY, Reason.TIMED_OUT) or (answer.ticket and not task.parks):
            self._is_over(task.name)  # the message that came is all there is of it
        if isinstance(answer, Refusal) and answer.reason is Reason.RUNNING:
            assert not answer.ticket, "that wait ended when the other message was admitted"  # A9
        if heard and isinstance(answer, Permit):
            task.permit, task.given_up_at = answer, self.clock.now + LEASE
        elif heard and isinstance(answer, Refusal):
            task.ticket = answer.ticket or task.ticket
        return answer

    def _is_the_same(self, first: Permit | Refusal, second: Permit | Refusal) -> None:
        if isinstance(first, Refusal) and first.reason is Reason.TIMED_OUT:
            return  # the wait is over: the second one begins another
        if isinstance(first, Refusal) and isinstance(second, Refusal):
            one = (first.reason, first.ticket, first.position, first.occupied)
            other = (second.reason, second.ticket, second.position, second.occupied)
            assert one == other, f"{first} was followed by {second}"
        else:
            assert first == second, f"{first} was followed by {second}"

    @rule(names=st.sampled_from(["a", "b", "c", "abc", "cba"]))
    def renew(self, names: str) -> None:
        """Of each task the last permit of which it heard: a late renewal, if that was released."""
        tasks = [self.tasks[each] for each in names if each in self.tasks]
        if permits := [each.permit for each in tasks if each.permit and self._may_renew(each)]:
            answers = self.ask(lambda store: renewed(store, permits))
            assert set(answers) == {permit.holder for permit in permits}
            for each in tasks:
                if (
                    each.permit
                    and answers.get(each.permit.holder, Renewal.LOST) is not Renewal.LOST
                ):
                    each.given_up_at = self.clock.now + LEASE

    def _may_renew(self, task: Task) -> bool:
        """Whether its holder may still renew, if an epoch began since.

        Each store remembers an end for a lease from when a call noticed it, so later than that a new epoch may take the
        permit back on one store and not on another. Nobody has it by then.
        """
        assert task.permit
        newest = max(each.epoch or 0 for each in self.learnt.values())
        return task.permit.epoch == newest or self.clock.now < task.given_up_at

    @precondition(lambda self: self.tasks)
    @rule(holder=holders, ran=st.booleans(), then=nexts)
    def release(self, holder: str, ran: bool, then: str) -> None:
        one = self.task(holder[0])
        claims, message_id = one.asked[holder]
        ran_as = message_id if ran else None
        self.hand_on(lambda store: store.release(holder, claims, ran_as), then)
        self.promises.over.add(holder)
        if holder == one.holder:
            one.known_until = min(one.known_until, self.clock.now + LEASE)

    @precondition(lambda self: any(seen.holders for seen in self.seen))
    @rule(resource=st.sampled_from(RESOURCES), then=nexts)
    def finish(self, resource: str, then: str) -> None:
        """The task that holds a permit here for the longest time ends."""
        seen = next(each for each in self.seen if each.resource == resource)
        if holder := next((each.holder for each in seen.holders if not each.granted), None):
            self.release(holder, ran=True, then=then)

    @precondition(lambda self: self.waiting())
    @rule(task=waiting_tasks, then=nexts)
    def give_up(self, task: str, then: str) -> None:
        one = self.task(task)
        self._is_over(task)
        self.hand_on(lambda store: store.release(one.known, one.claims), then)

    @precondition(lambda self: self.waiting())
    @rule(task=waiting_tasks, ends_in=st.sampled_from([None, 8.0]))
    def attach(self, task: str, ends_in: float | None) -> None:
        """A message that is parked once more, or whose worker had no time for it before."""
        self._attach(self.task(task), ends_in)

    def _attach(self, task: Task, ends_in: float | None = None) -> None:
        ticket, name = task.known, f"{task.name}.{len(task.names)}"
        task.names.append(name)
        payload, parked = name.encode(), self.parked.copy()
        refusals: list[Store] = []

        def attached(store: Store) -> Outgoing:
            try:
                return store.attach(ticket, task.claims, payload, name=name, ends_in=ends_in)
            except OtherClaims:
                refusals.append(store)
                return frozenset()

        self._is_over(task.name)
        self.parked.add(payload)
        self.nonces[payload] = ticket.nonce
        self.hand_on(attached)
        assert len(refusals) in (0, len(self.trio))
        if refusals:  # A19: its worker publishes it
            self.parked = parked

    def _is_over(self, task: str) -> None:
        self.parked -= self._messages_of(task.encode())

    def _messages_of(self, task: bytes) -> set[bytes]:
        """Those that must not be lost; where a task has an older one too, either may be sent."""
        return {each for each in self.parked if each.startswith(task)}

    @precondition(lambda self: self.taken)
    @rule(arrive=st.booleans())
    def sent(self, arrive: bool) -> None:
        self._sent(arrive=arrive)

    def _sent(self, *, arrive: bool = True) -> None:
        """The broker has the message that was taken first."""
        grant, stands_for = self.taken.pop(0)
        nonce = grant.ticket.nonce
        self.ask(lambda store: store.sent([grant], arrive=arrive))
        self.sent_for.add(nonce)
        # Seen after the call: a grant that ended in this moment, which no call has noticed, goes on.
        granted = [each for seen in self.seen for each in seen.holders if each.granted]
        if (nonce, grant.token) in {(each.holder, each.token) for each in granted}:
            # Whoever attached it again meanwhile has the same delivery.
            stands_for = self._messages_of(grant.payload[:1])
        self.parked -= {each for each in stands_for if self.nonces[each] == nonce}

    # What sessions do.

    @rule(session=sessions, begun=st.booleans(), room=rooms)
    def ask_for_grants(self, session: str, begun: bool, room: int | None = None) -> None:
        """Ask, and perhaps prolong what is being taken up; say how many grants the process can use."""
        waits, room = self._held() if begun else [], None if session == CALLER else room
        self.ask(lambda store: store.ask(session, begun=waits, room=room))

    @precondition(lambda self: self.waiting())
    @rule(session=sessions)
    def name_what_is_held(self, session: str) -> None:
        """Name each wait, also those of the other session."""
        waits = self._held()
        self.ask(lambda store: store.name(session, waits))

    @rule(session=sessions)
    def sleep(self, session: str) -> None:
        self.ask(lambda store: store.sleep(session))

    @rule(worker=sessions, queues=st.sets(queues), left=st.sets(queues))
    def consume(self, worker: str, queues: set[str], left: set[str]) -> None:
        """Say which queues a worker consumes, and look which ones none does."""
        self.ask(lambda store: store.consume(worker, queues, left - queues))
        self.ask(lambda store: store.unconsumed(QUEUES))

    def _held(self) -> list[HeldWait]:
        waiting = [self.tasks[name] for name in self.waiting()]
        return [HeldWait(task.known, task.claims, keeps=LEASE) for task in waiting]

    @rule(then=nexts)
    def reap(self, then: str) -> None:
        self.hand_on(reaped, then)

    # What operators do.

    @precondition(lambda self: self.waiting())
    @rule(task=waiting_tasks, resource=st.sampled_from(RESOURCES))
    def promote(self, task: str, resource: str) -> None:
        self.ask(lambda store: store.promote([self.task(task).known], resource))

    @precondition(lambda self: self.with_messages())
    @rule(task=parked_tasks, now=known_ends)
    def end(self, task: str, now: float) -> None:
        """Perhaps in the moment in which a grant or a permit has ended, and nothing has noticed that yet."""
        self.clock.now = now
        self.hand_on(lambda store: store.end(self.task(task).names))

    @rule(limit=st.sampled_from([None, None, 0, 1, 2]), name=st.sampled_from(RESOURCES))
    def set_limit(self, limit: int | None, name: str) -> None:
        self.hand_on(lambda store: store.set_limit(limit, name))

    @rule(take_up=st.sampled_from([TAKE_UP / 4, TAKE_UP]))
    def set_take_up(self, take_up: float) -> None:
        """Not another lease: memory and the servers take that of different moments for a place in transit."""
        self.ask(lambda store: store.set_lease(LEASE, take_up))

    @rule(lasts=st.sampled_from([None, 1.0, TAKE_UP, 2 * LEASE]), name=st.sampled_from(RESOURCES))
    def pause(self, lasts: float | None, name: str) -> None:
        self.ask(lambda store: store.pause(name, lasts))

    @rule(name=st.sampled_from(RESOURCES))
    def resume(self, name: str) -> None:
        self.hand_on(lambda store: store.resume(name))

    # Time and faults.

    @rule(seconds=st.sampled_from([0.25, 0.25, 1.0, 1.0, 5.0, 10.0, TAKE_UP, LEASE]))
    def advance(self, seconds: float) -> None:
        if self._lasts(seconds):
            self._pass(seconds + ODD_S)

    def _lasts(self, seconds: float) -> bool:
        """Return whether the run is no longer than the longest one if so much time passes now."""
        return self.clock.now + seconds - self.begun < LONGEST_RUN_S

    def _pass(self, seconds: float) -> None:
        """Let a process look at the stores each third of a lease: else this would be a silence (A17)."""
        end = self.clock.now + seconds
        while end - self.clock.now > LEASE / BEATS:
            self.clock.advance(LEASE / BEATS)
            self.ask(lambda _: None)
        self.clock.now = end

    @precondition(lambda self: not self.unused)
    @rule(seconds=st.sampled_from([0.7 * LEASE, LEASE, 1.5 * LEASE]))
    def pass_in_silence(self, seconds: float) -> None:
        """Call nothing: no permit ends whose holder could have renewed it."""
        if self._lasts(seconds):
            lasting = self._permits(lambda permit, at: permit.expires_at > at)
            self.clock.advance(seconds + ODD_S)
            self.ask(lambda _: None)
            assert lasting <= self._permits(lambda *_: True), "a permit ended in a silence"

    def _permits(self, which: Callable[[Held, float], bool]) -> set[tuple[str, str]]:
        """Return resource and holder of the permits that the last call saw."""
        return {
            (seen.resource, each.holder)
            for seen in self.seen
            for each in seen.holders
            if not each.granted and which(each, seen.at)
        }

    @rule(end=known_ends)
    def advance_to_an_end(self, end: float) -> None:
        self.clock.now = end

    @precondition(lambda self: self.deliveries >= MANY)
    @rule(restarted=st.booleans())
    def another_client(self, restarted: bool) -> None:
        """Go on as the other client, perhaps one that has not seen any epoch, and is set to another lease."""
        self.client = "y" if self.client == "x" else "x"
        if restarted:
            self.learnt[self.client] = KEPT if self.unused else OTHER

    @precondition(lambda self: self.deliveries >= MANY)
    @rule()
    def forget(self) -> None:
        self.deliveries = 0
        # A token is at least the server's time: it does not grow over a restart that takes less than a microsecond.
        self.clock.advance(ODD_S)
        self.trio.forget()
        self.unused = True
        for client, learnt in self.learnt.items():  # each was started with this lease
            self.learnt[client] = replace(learnt, in_force=KEPT.in_force)
        self.promises.forget()
        self.ends_at.clear()
        self.sent_for.clear()
        self.parked.clear()

    @precondition(lambda self: self.deliveries >= MANY)
    @rule()
    def fail_over(self) -> None:
        """Begin a new epoch with all that the store knows, as a replica that took over for a while.

        Then the client knows a newer epoch than the store.
        """
        self.deliveries = 0
        if any(end <= self.clock.now for end in self.ends_at.values()):
            # A short release on Redis ends the permit that it names, and no other one that is overdue there; memory
            # ends them all. What no call has ended goes on in the new epoch, so let each store end it first.
            self.hand_on(reaped)
            self.ends_at.clear()
        newest = max(each.epoch or 0 for each in self.learnt.values())
        self.learnt[self.client] = replace(self.learnt[self.client], epoch=1 + newest)

    def teardown(self) -> None:
        if sys.exception() is None:
            self._end_all()

    def _end_all(self) -> None:
        """No message is lost, and nothing is left: all that is free goes on until the stores are empty."""
        for name in RESOURCES:
            self.resume(name)
            self.set_limit(2, name)  # the highest weight: one that never fits would wait for ever
        for task in self.tasks.values():
            self.release(task.holder, ran=False, then="sent")
        for _ in range(ROUNDS):
            self._go_on()
            if not (used := self.ask(lambda store: sorted(store.resources()))):
                break
        assert not used, f"never idle: {used}"
        assert not self.parked, f"lost: {self.parked}"

    def _go_on(self) -> None:
        self._pass(LEASE + ODD_S)
        self.hand_on(reaped, "sent")


def machine_on(trio: Trio) -> Any:
    """Return what makes the machine; its class keeps the stores, whose servers are started once.

    Hypothesis takes any callable, though its annotations name classes only.
    """

    def make() -> Stores:
        Stores.trio = trio
        return Stores()

    return make
