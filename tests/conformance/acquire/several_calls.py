"""Test calls that are made together: each does what it does by itself, in their order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.claim import Claim, OtherClaims
from celery_semaphore.core.formats import FORMAT, NewerFormat
from celery_semaphore.core.names import LONGEST_NAME
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.store import Acquire, HandedOn, Release
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError
from tests.conformance.acquisition import admitted, claim, refused
from tests.conformance.sessions.session_calls import S, held, nonces
from tests.conformance.suite import LEASE, TAKE_UP, OpenStore, Suite
from tests.conformance.waiting.calling import BOTH, calling, calls

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

Call = Acquire | Release
Made = Callable[["Store", list[Call]], list[object]]


def together(store: Store, some: list[Call]) -> list[object]:
    return list(store.call_all(some))


def by_themselves(store: Store, some: list[Call]) -> list[object]:
    return [
        store.acquire(each.claims, each.holder, each.wait)
        if isinstance(each, Acquire)
        else store.release(each.holder, each.claims)
        for each in some
    ]


class Crowd:
    """Holders that acquire and release at random, each by the ticket of its last refusal."""

    def __init__(self, of: str, seed: int) -> None:
        self.of, self.random = of, random.Random(seed)
        self.tickets: dict[str, Ticket | None] = {}

    def call(self) -> Call:
        name = self.of + self.random.choice("abcdefgh")
        claims = self.claims(name)
        if self.random.random() < 0.6:
            return Acquire(claims, name, calls(self.tickets.get(name)))
        ticket = self.tickets.get(name)
        return Release(ticket if ticket and self.random.random() < 0.5 else name, claims)

    def claims(self, name: str) -> tuple[Claim, ...]:
        """Return the claims of this holder, always the same."""
        one = Claim(f"{self.of}-api", None, 3, 1 + (name[-1] in "ab"))
        return (one, Claim(f"{self.of}-disk", None, 2)) if name[-1] in "aceg" else (one,)

    def learn(self, some: list[Call], answers: list[object]) -> None:
        for call, answer in zip(some, answers, strict=True):
            if isinstance(answer, Refusal) and isinstance(call, Acquire):
                self.tickets[call.holder] = answer.ticket

    def told(self, answer: object) -> object:
        """Return the answer without the names, by which alone two crowds differ."""
        if isinstance(answer, Permit):
            return "permit", answer.holder[len(self.of) :], answer.expires_at, answer.epoch
        if isinstance(answer, Refusal):
            plain = replace(answer.claim, semaphore="", resource="-")
            ticket = answer.ticket and (answer.ticket.rank[:2], self.plain(answer.ticket.nonce))
            return "refusal", replace(answer, claim=plain, ticket=None), ticket
        assert isinstance(answer, HandedOn)
        return "handed on", answer.outgoing, sorted(map(self.plain, answer.granted))

    def plain(self, name: str) -> str:
        return name.removeprefix(self.of)

    def seen(self, store: Store) -> list[object]:
        found: list[object] = []
        for resource in (f"{self.of}-api", f"{self.of}-disk"):
            seen = store.snapshot(resource)
            found += [sorted(self.plain(each.holder) for each in seen.holders)]
            found += [[self.plain(each.ticket.nonce) for each in seen.waiters]]
            found += [(seen.occupied, seen.waiting, seen.limit, seen.kept)]
        return found


class SeveralCalls(Suite):
    """Of ``call_all``."""

    def test_none(self, store: Store) -> None:
        assert store.call_all([]) == []

    def test_they_are_made_in_their_order(self, store: Store) -> None:
        first, freed, second, third = store.call_all(
            [
                Acquire(claim(), "a"),
                Release("a", claim()),
                Acquire(claim(), "b"),
                Acquire(claim(), "c", calls()),
            ]
        )
        assert isinstance(first, Permit)
        assert freed == HandedOn()
        assert isinstance(second, Permit)
        assert second.token > first.token
        assert isinstance(third, Refusal)
        assert (third.reason, third.position) == (Reason.SATURATED, 0)

    def test_a_release_among_them_hands_on(self, store: Store) -> None:
        """H7: also at what was not released."""
        store.ask(S)
        admitted(store, claim(), "a")
        admitted(store, claim(of="net"), "d")
        wait = held(store, "b", claims=BOTH)
        caller = calling(store, claim(of="net"), "c")
        first, second = store.call_all([Release("a", claim()), Release("d", claim(of="net"))])
        assert isinstance(first, HandedOn)
        assert first.granted == nonces(wait)
        assert isinstance(second, HandedOn)
        assert second.granted == {caller.nonce}

    @pytest.mark.parametrize("seed", range(4))
    def test_they_do_what_each_does_by_itself(self, store: Store, clock: Clock, seed: int) -> None:
        store.ask(S)
        crowds: list[tuple[Crowd, Made]] = [
            (Crowd("x", seed), together),
            (Crowd("y", seed), by_themselves),
        ]
        for _ in range(12):
            said = []
            for crowd, make in crowds:
                some = [crowd.call() for _ in range(1 + crowd.random.randrange(9))]
                answers = make(store, some)
                crowd.learn(some, answers)
                said.append([[crowd.told(each) for each in answers], crowd.seen(store)])
            assert said[0] == said[1]
            clock.advance(1.0)

    @pytest.mark.parametrize("seed", range(3))
    def test_releases_of_the_same_claims_do_what_each_does_by_itself(
        self, store: Store, seed: int
    ) -> None:
        """Of holders, of waits by their tickets, and of waits by their holders."""
        numbers, said = random.Random(seed).sample(range(8), 6), []
        for of, make in (("x", together), ("y", by_themselves)):
            one, names = claim(3, of=of), [f"{of}{n}" for n in range(8)]
            refusals = [store.acquire(one, name, calls()) for name in names]
            tickets = [each.ticket for each in refusals if isinstance(each, Refusal)]
            some: list[Call] = [
                Release(tickets[n - 3] or "" if n % 2 and n > 2 else names[n], one) for n in numbers
            ]
            handed = make(store, some)
            seen = store.snapshot(of)
            granted = [sorted(name[1:] for name in each.granted) for each in handed]  # type: ignore[attr-defined]
            said.append((granted, sorted(each.holder[1:] for each in seen.holders), seen.waiting))
        assert said[0] == said[1]
        assert any(said[0][0]), "some waits were granted a permit"

    def test_the_error_of_one_is_its_own(self, store: Store) -> None:
        too_long = "x" * (LONGEST_NAME + 1)
        ticket = refused(store, claim(0), "w", Wait(Kind.BLOCK, session=S)).ticket
        before, error, other, after = store.call_all(
            [
                Acquire(claim(2), "a"),
                Acquire(claim(2), too_long),
                Acquire(BOTH, "w", Wait(Kind.BLOCK, ticket, session=S)),
                Acquire(claim(2), "b"),
            ]
        )
        assert isinstance(before, Permit)
        assert isinstance(error, SemaphoreError)
        assert isinstance(other, OtherClaims)
        assert other.ticket == ticket
        assert isinstance(after, Refusal), after

    def test_of_a_newer_format_none_is_made(self, store: Store) -> None:
        """A1: each gets the error for itself."""
        admitted(store, claim(), "a")
        self.set_format(store, FORMAT + 1)
        answers = store.call_all([Acquire(claim(), "b"), Release("a", claim())])
        assert all(isinstance(each, NewerFormat) for each in answers)
        self.set_format(store, FORMAT)
        assert [each.holder for each in store.snapshot("api").holders] == ["a"]

    def test_another_lease_is_learnt_on_the_way(
        self, store: Store, open_store: OpenStore, clock: Clock
    ) -> None:
        """A16: the calls that brought the old one are repeated."""
        other = store.lease * 2
        store.snapshot("api")  # the first caller's lease is in force
        open_store(now=clock, lease=LEASE, take_up=TAKE_UP).set_lease(other)
        answers = store.call_all([Acquire(claim(2), "a"), Acquire(claim(2), "b")])
        assert all(isinstance(each, Permit) for each in answers)
        assert store.lease == other
