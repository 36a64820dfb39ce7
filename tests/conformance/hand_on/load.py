"""Let single tasks come and go at several resources, as the tests of a wait with several claims need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Permit
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import claim
from tests.conformance.sessions.session_calls import S
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

LATER = 20  # single tasks that may go first, of those that came later; with many permits 4 for each


class Load:
    """Runs single tasks at each resource, each for a second; as one ends, another one comes."""

    def __init__(self, store: Store, clock: Clock, claims: Sequence[Claim], limit: int) -> None:
        self.store, self.clock, self.limit, self.later = store, clock, limit, 0
        self.singles: dict[str, str] = {}  # holder → its resource
        self.running: dict[str, list[str]] = {each.resource: [] for each in claims}
        self.claims = {at: claim(limit, of=at) for at in self.running}
        for at in self.running:
            for _ in range(limit):
                self.running[at].append(self.comes(at))
        self.waiting = [self.comes(at) for at in self.running for _ in range(3)]

    def comes(self, at: str) -> str:
        self.clock.advance(0.001)
        holder = f"{at} {len(self.singles)}"
        self.singles[holder] = at
        self.store.acquire(self.claims[at], holder, Wait(Kind.REQUEUE, session=S))
        return holder

    def goes_on_until(self, pair: Ticket) -> None:
        """Let the tasks end in turn until this wait has its grant; count those that began and came later."""
        known, most = set(self.singles), max(LATER, 4 * self.limit)
        while True:
            for at, running in self.running.items():
                self.clock.advance(1 / len(self.running))
                if not running:
                    continue
                self.store.release(running.pop(0), self.claims[at])
                self.comes(at)
                new = self.store.ask(S).granted
                if pair.nonce in new:
                    return
                self.later += len([each for each in new if each not in known])
                assert self.later < most, "single tasks go first, again and again"
                for each in sorted(new):
                    self.begins(each)

    def begins(self, nonce: str) -> None:
        at = self.singles[nonce]
        waits = granted(self.store, at)
        ticket = next(each for each in waits if each.nonce == nonce)
        holder = f"{nonce}, taken up"
        wait = Wait(Kind.REQUEUE, ticket, session=S)
        assert isinstance(self.store.acquire(self.claims[at], holder, wait), Permit)
        self.running[at].append(holder)
