"""Keep room without a loss (H12): a limit over all keys beside a limit of each; on the memory store, which is fast."""

from __future__ import annotations

import heapq
import random

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.engine import kept_room
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock

SESSION = "worker"
KEYS, PERMITS, RUNS_S = 20, 10, 60.0
LOAD = 0.9
WARM_S, UNTIL_S, SWEEP_S = 600.0, 4200.0, 5.0


class Arrivals:
    """Sends tasks at random times, each with one permit of the limit over all keys and the one of its key."""

    def __init__(self) -> None:
        self.clock, self.random = Clock(), random.Random(1)
        self.store = MemoryStore(StoreOptions(now=self.clock, lease=100_000.0))
        self.store.ask(SESSION)
        self.began = self.clock()
        self.ends: list[tuple[float, str]] = []  # when, and the holder
        self.claims: dict[str, list[Claim]] = {}  # by the nonce of the wait, or the holder
        self.done, self.kept = 0, list[int]()

    def run(self) -> None:
        arrival, sweep = 0.0, 0.0
        while (now := min(arrival, sweep, self.ends[0][0] if self.ends else UNTIL_S)) < UNTIL_S:
            self.clock.now = self.began + now
            if now == arrival:
                self.comes()
                arrival += self.random.expovariate(LOAD * PERMITS / RUNS_S)
            elif now == sweep:
                self.store.reap()
                sweep += SWEEP_S
                self.kept.append(self.store.snapshot("all").kept if now > WARM_S else 0)
            else:
                _, holder = heapq.heappop(self.ends)
                self.store.release(holder, self.claims[holder])
                self.done += now > WARM_S
            self.take_up()

    def comes(self) -> None:
        key = str(self.random.randrange(KEYS))
        holder = f"task {len(self.claims)}"
        self.acquire(holder, [Claim("all", None, PERMITS), Claim("tenant", key, 1)], None)

    def take_up(self) -> None:
        for nonce in sorted(self.store.ask(SESSION).granted):
            self.acquire(f"{nonce}, taken up", self.claims[nonce], Ticket(nonce, 0, 0))

    def acquire(self, holder: str, claims: list[Claim], ticket: Ticket | None) -> None:
        self.claims[holder] = claims
        wait = Wait(Kind.REQUEUE, ticket, session=SESSION)
        if isinstance(self.store.acquire(claims, holder, wait), Permit):
            heapq.heappush(self.ends, (self.clock() - self.began + RUNS_S, holder))


def test_a_limit_over_all_keys_idles_for_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key has a wait nearly always, whose turn there takes as long as permits are held; others use the permits."""
    keeping, plain = Arrivals(), Arrivals()
    keeping.run()
    with monkeypatch.context() as patch:
        patch.setattr(kept_room, "KEPT_ROOMS", 0)
        plain.run()
    assert sum(plain.kept) == 0
    assert sum(keeping.kept) < 0.02 * PERMITS * len(keeping.kept)
    assert keeping.done >= 0.99 * plain.done
    assert keeping.done > 0.95 * LOAD * PERMITS / RUNS_S * (UNTIL_S - WARM_S)
