"""Test callers that block: they stand in one line with the parked tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    parked,
    refused,
    two_windows_later,
    why,
)
from tests.conformance.grants import messages, released
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

AGAIN = LEASE / 3  # seconds after which a caller asks again
SESSION = "a calling process"
BOTH = claim() + claim(of="disk")


def calls(ticket: Ticket | None = None, *, timeout: float | None = None, priority: int = 0) -> Wait:
    return Wait(Kind.BLOCK, ticket, priority, AGAIN, AGAIN, timeout=timeout, session=SESSION)


def calling(store: Store, claims: Sequence[Claim], holder: str, *, priority: int = 0) -> Ticket:
    """Return the ticket of a caller that blocks."""
    ticket = refused(store, claims, holder, calls(priority=priority)).ticket
    assert ticket
    return ticket


def granted(store: Store, resource: str = "api") -> list[Ticket]:
    """Return the tickets that were granted a permit."""
    return [held.ticket for held in store.snapshot(resource).holders if held.ticket]


class Calling(Suite):
    def test_a_caller_stands_in_line(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        refusal = refused(store, claim(), "b", calls())
        assert (refusal.reason, refusal.position) == (Reason.SATURATED, 0)
        assert refusal.retry_after == AGAIN
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.ticket, waiter.kind, waiter.due) == (
            refusal.ticket,
            "block",
            clock.now + AGAIN,
        )

    def test_a_release_hands_on_to_a_caller(self, store: Store, clock: Clock) -> None:
        """Hand the permit on without sending a message."""
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        handed = store.release("a", claim())
        assert handed.granted == {ticket.nonce}
        assert store.take(handed.outgoing) == []
        (held,) = store.snapshot("api").holders
        assert (held.holder, held.ticket) == (ticket.nonce, ticket)
        assert held.expires_at == clock.now + GRANT_S
        assert store.ask(SESSION).granted == {ticket.nonce}
        assert store.snapshot("api").waiting == 0

    def test_a_caller_takes_its_grant_up(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        store.release("a", claim())
        token = store.snapshot("api").holders[0].token
        clock.advance(GRANT_S / 2)
        permit = admitted(store, claim(), "b", calls(ticket))
        assert (permit.token, permit.expires_at) == (token, clock.now + LEASE)
        assert admitted(store, claim(), "b", calls(ticket)) == permit
        assert granted(store) == []
        store.release("b", claim())
        assert list(store.resources()) == []

    def test_a_callers_grant_keeps_others_out(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        store.release("a", claim())
        assert why(store, claim(), "c", calls()) is Reason.SATURATED
        admitted(store, claim(), "b", calls(ticket))

    def test_one_line_with_the_parked(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        line = []
        for n, holder in enumerate("bcdefg"):
            line.append((calling if n % 2 else parked)(store, claim(), holder))
            clock.advance(0.001)
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == line
        holder = "a"
        for n, ticket in enumerate(line):
            sent = released(store, holder, claim())
            assert granted(store) == [ticket]
            assert [grant.ticket for grant in sent] == ([] if n % 2 else [ticket])
            holder = f"{n}-came"
            admitted(
                store, claim(), holder, came_back(ticket, Kind.PARK) if sent else calls(ticket)
            )
        assert not store.release(holder, claim()).outgoing

    def test_several_of_both_are_handed_on_at_once(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(4, weight=4), "a")
        line = []
        for n in range(6):
            line.append((parked if n % 2 else calling)(store, claim(4), str(n)))
            clock.advance(0.001)
        assert messages(released(store, "a", claim(4, weight=4))) == [b"1", b"3"]
        assert sorted(granted(store), key=lambda ticket: ticket.rank) == line[:4]

    def test_callers_of_higher_priority_go_first(self, store: Store) -> None:
        admitted(store, claim(), "a")
        calling(store, claim(), "low")
        high = calling(store, claim(), "high", priority=9)
        store.release("a", claim())
        assert granted(store) == [high]

    def test_newcomers_do_not_overtake_a_caller(self, store: Store, clock: Clock) -> None:
        """Declare a higher limit, before any call has handed on a permit."""
        permit = admitted(store, claim(1), "a")
        ticket = calling(store, claim(1), "b")
        two_windows_later(store, clock, [permit], SESSION)
        assert why(store, claim(2), "c") is Reason.SATURATED
        assert why(store, claim(2), "d", calls()) is Reason.SATURATED
        assert why(store, claim(2), "e", Wait(Kind.REQUEUE)) is Reason.SATURATED
        admitted(store, claim(2), "b", calls(ticket))

    def test_a_caller_that_asks_again_keeps_its_place(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        first = calling(store, claim(), "b")
        clock.advance(1)
        parked(store, claim(), "c")
        permit = admitted(store, claim(of="disk"), "x")
        for _ in range(10):
            clock.advance(AGAIN)
            store.renew([admitted(store, claim(), "a"), permit])
            again = refused(store, claim(), "b", calls(first))
            assert (again.ticket, again.position) == (first, 0)
        assert not store.reap()
        assert store.release("a", claim()).outgoing == frozenset()
        assert granted(store) == [first]

    def test_a_raised_limit_is_handed_on_to_callers(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        line = []
        for holder in "bcd":
            line.append(calling(store, claim(), holder))
            clock.advance(0.001)
        assert store.set_limit(3, "api") == frozenset()
        assert granted(store) == line[:2]

    def test_an_overdue_lease_is_handed_on_to_a_caller(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        clock.advance(LEASE / 2)
        store.ask(SESSION)
        clock.advance(LEASE / 2)
        assert store.reap() == frozenset()
        assert granted(store) == [ticket]

    def test_a_caller_is_handed_all_its_claims(self, store: Store) -> None:
        admitted(store, BOTH, "a")
        ticket = calling(store, BOTH, "b")
        store.release("a", BOTH)
        assert granted(store) == granted(store, "disk") == [ticket]
        admitted(store, BOTH, "b", calls(ticket))
        store.release("b", BOTH)
        assert list(store.resources()) == []

    def test_a_caller_refused_elsewhere_moves_there(self, store: Store) -> None:
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        ticket = calling(store, BOTH, "b")
        store.release("a", claim())
        assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (0, 1)
        store.release("x", claim(of="disk"))
        assert granted(store) == granted(store, "disk") == [ticket]
        admitted(store, BOTH, "b", calls(ticket))

    def test_a_caller_waits_for_the_grace(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        self.forget(store)
        refusal = refused(store, claim(), "b", calls())
        assert refusal.reason is Reason.RECOVERING
        store.renew([permit])
        clock.advance(LEASE - 1)
        assert why(store, claim(), "b", calls(refusal.ticket)) is Reason.SATURATED
        store.release("a", claim())
        assert granted(store) == [refusal.ticket]
