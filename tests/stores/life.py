"""A life of tasks on one resource or two, lived in the same way on two databases, by short ways and by long ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celery_semaphore.core.claim import Claim, OtherClaims
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.names import task_id_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.store import Store
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock

LEASE, TAKE_UP = 3.0, 5.0  # short, so that leases, grants, graces and waits end all the time
CROWD = 12  # tasks; one goes for each that comes beyond
API, DISK = "api/eu", "disk"  # resources


def or_other_claims(call: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """Call; return the claims of the wait if the call has others (A19)."""
    try:
        return call(*given, **more)
    except OtherClaims as others:
        return others.claims


@dataclass
class Side:
    store: Store
    rows: Callable[[], list[tuple[str, str]]]  # each with its table
    forget: Callable[[], None]
    crash: Callable[[], object]


@dataclass
class Task:
    claims: tuple[Claim, ...]
    session: str
    priority: int = 0
    ticket: Ticket | None = None
    permit: Permit | None = None


@dataclass
class Life:
    """Tasks that come, wait, run and end, by a random number."""

    sides: tuple[Side, Side]
    clock: Clock
    dice: random.Random
    tasks: dict[str, Task] = field(default_factory=dict)
    born: int = 0

    def ask(self, question: Callable[[Store], Any], said: str) -> Any:
        short, long = (question(side.store) for side in self.sides)
        assert short == long, said
        return short

    def go_on(self) -> None:
        acts = {
            self.come: 60,
            self.take_up: 50,
            self.end: 60,
            self.ask_for_grants: 20,
            self.pass_time: 40,
            self.come_back: 10,
            self.repeat: 10,
            self.renew: 20,
            self.end_again: 6,
            self.set_limit: 2,
            self.pause: 1,
            self.resume: 3,
            self.declare: 2,
            self.attach: 3,
            self.end_wait: 1,
            self.send: 10,
            self.name: 4,
            self.promote: 4,
            self.reap: 5,
            self.sleep: 2,
            self.step_back: 2,
            self.crash: 0.5,
        }
        (act,) = self.dice.choices(list(acts), list(acts.values()))
        act()
        self.check(f"{act.__name__} at {self.born}")

    def check(self, said: str) -> None:
        short, long = (Counter(filter(self.lasts, side.rows())) for side in self.sides)
        assert short == long, f"{said}: {short - long} instead of {long - short}"

    def lasts(self, row: tuple[str, str]) -> bool:
        """Return whether it matters: kept room that is over goes with the next long way."""
        return not row[0].isdecimal() or int(row[0]) > round(self.clock() * 1_000_000)

    def waiting(self) -> list[str]:
        return [name for name, task in self.tasks.items() if task.ticket and not task.permit]

    def some(self, names: list[str]) -> str | None:
        return self.dice.choice(names) if names else None

    def claims(self) -> tuple[Claim, ...]:
        limit = self.dice.choices((2, 3, 1), (40, 1, 1))[0]
        api, disk = Claim("api", "eu", limit), Claim(DISK, None, 1)
        heavy = Claim("api", "eu", limit, self.dice.choices((2, 3), (8, 1))[0])
        return self.dice.choices([(api,), (heavy,), (disk,), (api, disk)], [40, 8, 4, 12])[0]

    def come(self) -> None:
        self.born += 1
        if len(self.tasks) > CROWD:
            self.go()
        task = Task(
            self.claims(),
            self.dice.choice(("one", "one", "other", "other", "")),
            self.dice.choice((0, 0, 3)),
        )
        self.tasks[f"holder {self.born}:1"] = task
        self.acquire(f"holder {self.born}:1", task)

    def acquire(self, holder: str, task: Task) -> None:
        kind = self.dice.choices((Kind.REQUEUE, Kind.PARK, Kind.BLOCK, None), (20, 2, 2, 1))[0]
        wait = (
            Wait(
                kind,
                ticket=task.ticket,
                priority=task.priority,
                session=task.session,
                timeout=self.dice.choices((None, 1.0, 0.0), (12, 2, 1))[0],
                keeps=1.0,
            )
            if kind
            else None
        )
        tasks = task_id_of(holder), "the same", task_id_of(self.dice.choice([*self.tasks]))
        of = self.dice.choices(tasks, (5, 1, 1))[0]
        publications = None, MessageId(of), MessageId(of, "second"), MessageId(of, redelivered=True)
        message_id = self.dice.choices(publications, (4, 4, 1, 1))[0]
        answer = self.ask(
            lambda store: or_other_claims(store.acquire, task.claims, holder, wait, message_id),
            f"acquire {holder}",
        )
        if isinstance(answer, Permit):
            task.permit = answer
        elif isinstance(answer, tuple):
            task.claims = answer
            self.acquire(holder, task)
        else:
            task.ticket = answer.ticket or task.ticket

    def repeat(self) -> None:
        if name := self.some(list(self.tasks)):
            task, other = self.tasks[name], self.dice.choice(list(self.tasks.values()))
            task.ticket = self.dice.choice((task.ticket, task.ticket, None, None, other.ticket))
            self.acquire(name, task)

    def come_back(self) -> None:
        """Another delivery of a wait, perhaps after its task has changed."""
        if name := self.some(self.waiting()):
            self.born += 1
            task = self.tasks.pop(name)
            task.claims = self.dice.choice((task.claims, self.claims()))
            self.tasks[f"holder {self.born}:1"] = task
            self.acquire(f"holder {self.born}:1", task)

    def held_by(self, session: str) -> list[HeldWait]:
        waiting = [self.tasks[name] for name in self.waiting()]
        return [
            HeldWait(one.ticket, one.claims)
            for one in waiting
            if one.ticket and one.session == session
        ]

    def name(self) -> None:
        session = self.dice.choice(("one", "other"))
        held = self.held_by(session)
        self.ask(lambda store: store.name(session, held), "name")

    def promote(self) -> None:
        if name := self.some(self.waiting()):
            ticket, resource = self.tasks[name].ticket, self.dice.choice((API, API, DISK))
            self.ask(
                lambda store: store.promote([ticket] if ticket else [], resource), f"promote {name}"
            )

    def ask_for_grants(self) -> list[str]:
        session = self.dice.choice(("one", "other"))
        held = self.held_by(session)[:8]
        begun = held if self.dice.random() < 0.2 else []
        reply = self.ask(lambda store: store.ask(session, begun, held), "ask")
        return sorted(reply.granted)

    def take_up(self) -> None:
        granted = self.ask_for_grants()
        for name in self.waiting():
            task = self.tasks[name]
            if task.ticket and task.ticket.nonce in granted:
                if self.dice.random() < 0.2:
                    task.claims = self.claims()
                self.acquire(name, task)

    def end(self) -> None:
        running = [name for name, task in self.tasks.items() if task.permit]
        if name := self.some(running):
            self.release(name, self.tasks.pop(name))

    def end_again(self) -> None:
        """A release of one that waits, or whose call is on its way."""
        if name := self.some(list(self.tasks)):
            self.release(name, self.tasks[name])

    def go(self) -> None:
        """The task of a wait, or of a permit, is gone."""
        if name := self.some(list(self.tasks)):
            task = self.tasks.pop(name)
            self.release(task.ticket if task.ticket and not task.permit else name, task)

    def release(self, holder: str | Ticket, task: Task) -> None:
        of = task_id_of(str(holder))
        messages = None, MessageId(of), MessageId(of, "second")
        message_id = self.dice.choices(messages, (4, 4, 1))[0]
        self.ask(lambda store: store.release(holder, task.claims, message_id), f"release {holder}")

    def renew(self) -> None:
        permits = [task.permit for task in self.tasks.values() if task.permit]
        self.ask(lambda store: store.renew(permits), "renew")

    def pass_time(self) -> None:
        self.clock.advance(self.dice.choices((0.1, 1.1, 2.1, 3.1), (12, 2, 1, 1))[0])

    def step_back(self) -> None:
        self.clock.advance(-self.dice.choice((0.5, 100.0)))
        self.dice.choice((self.end, self.take_up, self.come))()
        self.clock.advance(
            self.dice.choices((0.0, 3 * TAKE_UP), (1, 4))[0]
        )  # a grace may last so long

    def set_limit(self) -> None:
        name, limit = (
            self.dice.choice((API, "api")),
            self.dice.choices((None, 0, 1, 3), (6, 1, 1, 1))[0],
        )
        self.ask(lambda store: store.set_limit(limit, name), "set_limit")

    def pause(self) -> None:
        name, lasts = self.dice.choice((API, "api")), self.dice.choice((0.5, 3.0, 40.0))
        self.ask(lambda store: store.pause(name, lasts), "pause")

    def resume(self) -> None:
        name = self.dice.choice((API, "api"))
        self.ask(lambda store: store.resume(name), "resume")

    def declare(self) -> None:
        """A worker declares a limit for all keys."""
        limit = self.dice.choices((2, 3, 1), (3, 1, 1))[0]
        self.ask(lambda store: store.declare({"api//": limit}, "a worker"), "declare")

    def reap(self) -> None:
        self.ask(lambda store: store.reap(), "reap")

    def sleep(self) -> None:
        session = self.dice.choice(("one", "other"))
        self.ask(lambda store: store.sleep(session), "sleep")

    def attach(self) -> None:
        if name := self.some(self.waiting()):
            task, ends_in = self.tasks[name], self.dice.choice((None, 4.0))
            task.session = ""
            ticket = task.ticket
            assert ticket
            self.ask(
                lambda store: or_other_claims(
                    store.attach, ticket, task.claims, b"message", name=str(ticket), ends_in=ends_in
                ),
                f"attach {name}",
            )

    def end_wait(self) -> None:
        if name := self.some(self.waiting()):
            self.ask(lambda store: store.end([str(self.tasks[name].ticket)]), f"end {name}")

    def send(self) -> None:
        grants = self.ask(lambda store: sorted(store.take(frozenset({API, DISK})), key=str), "take")
        self.ask(lambda store: store.sent(grants), "sent")
        sent = {grant.ticket for grant in grants}
        for name in [name for name in self.waiting() if self.tasks[name].ticket in sent]:
            self.acquire(name, self.tasks[name])

    def crash(self) -> None:
        """Of the server: what is unlogged is gone, and at times its replica has nothing at all."""
        everything = self.dice.random() < 0.3
        for each in self.sides:
            each.forget() if everything else each.crash()
        self.ask(lambda store: store.reap(), "the first call afterwards")
        self.clock.advance(self.dice.choices((0.0, LEASE), (1, 4))[0])  # it begins a grace
