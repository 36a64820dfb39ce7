"""A hand-on ends, and leaves no wait behind that could have a permit; on the memory store, which shows its state."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock

NAMES, SESSION = "abcd", "worker"
STEPS, PROGRAMS = 200, 12


class Program:
    """Random calls of workers and operators, between which nothing reaps but what is due."""

    def __init__(self, seed: int) -> None:
        self.random, self.clock, self.did = random.Random(seed), Clock(), Counter[str]()
        self.store = MemoryStore(StoreOptions(now=self.clock, lease=3000.0))
        self.limit = self.random.choice((1, 2, 3))
        self.names = NAMES[: self.random.choice((2, 3, 4))]
        self.claims: dict[str, list[Claim]] = {}  # by the nonce of a wait, or its holder
        self.running: list[str] = []

    def step(self) -> None:
        self.store.ask(SESSION)
        over = self._kept()
        self.clock.advance(self.random.choice((0.001, 0.01, 0.2, 1.0)))
        is_due = over > self._kept()  # its time is over: H12
        call = self.random.choices(
            [self.comes, self.ends, self.gives_up, self.promotes, self.limits, self.returns],
            [6, 5, 0.5, 0.3, 0.3, 0.5],
        )[0]
        call()
        if is_due or call == self.returns:
            self.store.reap()
        assert not self.grantable(), f"after {call.__name__}"
        self.take_up()
        assert not self.grantable(), "after the grants were taken up"

    def comes(self) -> None:
        names = self.random.sample(self.names, self.random.randint(1, min(3, len(self.names))))
        self.acquire(f"h{len(self.claims)}", [self._claim(name) for name in names], None)

    def _claim(self, name: str) -> Claim:
        is_heavy = self.random.random() < 0.3
        weight = self.random.randint(1, self.limit) if is_heavy else 1
        return Claim(name, None, self.limit, weight)

    def acquire(self, holder: str, claims: list[Claim], ticket: Ticket | None) -> None:
        self.claims[holder] = claims
        priority = self.random.choice((0, 0, 0, 5))
        wait = Wait(Kind.REQUEUE, ticket, session=SESSION, priority=priority)
        if isinstance(self.store.acquire(claims, holder, wait), Permit):
            self.running.append(holder)

    def ends(self) -> None:
        if self.running:
            holder = self.running.pop(self.random.randrange(len(self.running)))
            self.store.release(holder, self.claims[holder])

    def waiting(self) -> tuple[Ticket, str] | None:
        waits = [(w.ticket, at) for at in self.names for w in self.store.snapshot(at).waiters]
        return self.random.choice(waits) if waits else None

    def gives_up(self) -> None:
        if found := self.waiting():
            self.store.release(found[0], self.claims[found[0].nonce])

    def promotes(self) -> None:
        if found := self.waiting():
            self.store.promote([found[0]], found[1])

    def limits(self) -> None:
        limit = self.random.choice((None, 0, self.limit, self.limit + 1))
        self.store.set_limit(limit, self.random.choice(self.names))

    def returns(self) -> None:
        """A message is delivered again."""
        if found := self.waiting():
            ticket = found[0]
            self.acquire(f"{ticket.nonce}+{len(self.claims)}", self.claims[ticket.nonce], ticket)

    def take_up(self) -> None:
        for nonce in sorted(self.store.ask(SESSION).granted):
            self.did["grants"] += 1
            before = len(self.running)
            self.acquire(f"{nonce}'", self.claims[nonce], Ticket(nonce, 0, 0))
            assert len(self.running) == before + 1

    def _kept(self) -> int:
        kept = sum(self.store.snapshot(name).kept for name in self.names)
        self.did["kept"] += kept > 0
        return kept

    def grantable(self) -> list[str]:
        """Return the waits in line that no claim refuses."""
        state = self.store._state
        return [
            each.nonce
            for name in self.names
            for each in state.at(name).line()
            if not each.aside and state.is_reachable(each)
            if not any(state.refusal(claim, each.ticket) for claim in each.resource_claims)
        ]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_no_wait_is_left_that_could_have_a_permit(seed: int) -> None:
    program = Program(seed)
    for _ in range(STEPS):
        program.step()
    assert program.did["grants"] > 0


def test_all_waits_are_granted_in_the_end() -> None:
    did = Counter[str]()
    for seed in range(PROGRAMS):
        program = Program(seed)
        for _ in range(STEPS // 2):
            program.step()
        for name in program.names:
            program.store.set_limit(None, name)
        program.take_up()
        while program.running:
            program.ends()
            program.take_up()
        assert not any(program.store.snapshot(name).waiting for name in program.names)
        did += program.did
    assert did["kept"] > STEPS // 2, "room was kept after many of all steps"
