"""No line stands still while its first wait, or one behind it that may pass, has room at all its claims.

The store in memory is asked at random; `tests/model` compares the other stores with it.
"""

import random
from collections.abc import Iterator

import pytest

from celery_semaphore.core.permit import Claim, Kind, Permit, Wait
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock

NAMES = ("a", "b", "c")
SESSIONS = ("s", "t")


def grantable(store: MemoryStore) -> Iterator[str]:
    """Yield the waits that a hand-on should have granted."""
    state = store._state
    for at in state.resources.values():
        for waiter in at.in_line():
            if (
                state.is_reachable(waiter)
                and state.has_room(waiter.session)
                and not any(state.refusal(each, waiter.ticket) for each in waiter.resource_claims)
            ):
                yield f"{waiter.nonce} at {at.name}"


class Traffic:
    """Random calls of workers and operators."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.store = MemoryStore(StoreOptions(now=self.clock, lease=1e6))
        self.claims: dict[str, tuple[Claim, ...]] = {}
        self.running: list[str] = []
        self.waiting: list[str] = []
        for session in SESSIONS:
            self.store.ask(session)

    def arrive(self) -> None:
        holder, heavy = f"h{len(self.claims)}", self.random.random() < 0.4
        names = sorted(self.random.sample(NAMES, self.random.choice((1, 2, 2, 2, 3))))
        self.claims[holder] = tuple(
            Claim(name, None, 4, self.random.choice((1, 3)) if heavy else 1) for name in names
        )
        kind = self.random.choice((Kind.PARK, Kind.REQUEUE))
        session = "" if kind is Kind.PARK else self.random.choice(SESSIONS)
        wait = Wait(kind, priority=self.random.choice((0, 0, 5)), session=session)
        answer = self.store.acquire(self.claims[holder], holder, wait)
        if isinstance(answer, Permit):
            self.running.append(holder)
            return
        self.waiting.append(holder)
        if kind is Kind.PARK and answer.ticket:
            self.store.attach(answer.ticket, self.claims[holder], b"m", name=holder)
        self.store.reap()

    def finish(self) -> None:
        if self.running:
            holder = self.running.pop(self.random.randrange(len(self.running)))
            self.store.release(holder, self.claims[holder])
        state = self.store._state
        granted = {nonce for at in state.resources.values() for nonce in at.grants}
        for nonce in sorted(granted):  # each begins at once
            ticket = next(
                at.ticket_of(nonce) for at in state.resources.values() if nonce in at.grants
            )
            wait = Wait(Kind.REQUEUE, ticket=ticket)
            answer = self.store.acquire(self.claims[nonce], f"{nonce}'", wait)
            assert isinstance(answer, Permit)
            self.claims[f"{nonce}'"] = self.claims[nonce]
            self.running.append(f"{nonce}'")

    def give_up(self) -> None:
        for at in self.store._state.resources.values():
            if line := list(at.in_line()):
                one = self.random.choice(line)
                self.store.release(one.ticket, one.claims)
                return

    def end(self) -> None:
        self.store.end([self.random.choice(self.waiting)] if self.waiting else [])

    def limit(self) -> None:
        self.store.set_limit(self.random.choice((None, None, 3)), self.random.choice(NAMES))

    def promote(self) -> None:
        for at in self.store._state.resources.values():
            if line := list(at.in_line()):
                self.store.promote([self.random.choice(line).ticket], at.name)
                return

    def sleep(self) -> None:
        session = self.random.choice(SESSIONS)
        self.store.sleep(session)
        self.store.release("unknown", self.claims.get("h0", (Claim("a", None, 4),)))
        self.store.reap()
        self.store.ask(session)

    def step(self) -> None:
        rules = (
            self.arrive,
            self.finish,
            self.give_up,
            self.end,
            self.limit,
            self.promote,
            self.sleep,
        )
        (rule,) = self.random.choices(rules, weights=(12, 10, 2, 2, 1, 1, 2))
        rule()
        self.clock.advance(0.001)


@pytest.mark.parametrize("seed", range(20))
def test_what_has_room_is_granted(seed: int) -> None:
    traffic = Traffic(seed)
    for n in range(300):
        traffic.step()
        assert list(grantable(traffic.store)) == [], f"step {n}"
