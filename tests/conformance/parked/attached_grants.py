"""Test messages that are attached after their wait was granted a permit (E3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused
from tests.conformance.grants import attached, messages, released
from tests.conformance.sessions.session_calls import S
from tests.conformance.suite import LEASE, TAKE_UP, Suite
from tests.conformance.waiting.calling import BOTH, granted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock


def parks(store: Store, claims: Sequence[Claim], holder: str) -> Ticket:
    """Let a task wait that is about to be parked; until then its worker's session asks for it."""
    store.ask(S)
    ticket = refused(store, claims, holder, Wait(Kind.PARK, session=S)).ticket
    assert ticket
    return ticket


class AttachedGrants(Suite):
    def test_it_goes_out_at_once(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parks(store, claim(), "b")
        clock.advance(0.5)
        parked(store, claim(), "c")
        assert not store.release("a", claim()).outgoing
        assert granted(store) == [ticket]
        clock.advance(0.5)
        (grant,) = attached(store, ticket, claim(), b"b")
        assert (grant.ticket, grant.payload) == (ticket, b"b")
        assert grant.expires_at == clock.now + TAKE_UP
        assert store.ask(S).granted == frozenset()
        assert attached(store, ticket, claim(), b"b") == [], "it was taken out already"
        store.sent([grant])
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert messages(released(store, "b2", claim())) == [b"c"]

    def test_it_does_not_go_out_again_once_it_was_sent(self, store: Store) -> None:
        """Attach the message once more, because the answer of the first attach was lost."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        assert attached(store, ticket, claim(), b"b") == []

    def test_it_goes_out_with_all_its_claims(self, store: Store, clock: Clock) -> None:
        admitted(store, BOTH, "a")
        ticket = parks(store, BOTH, "b")
        store.release("a", BOTH)
        clock.advance(0.5)
        assert messages(attached(store, ticket, BOTH, b"b")) == [b"b"]
        for name in ("api", "disk"):
            (grant,) = store.snapshot(name).holders
            assert (grant.ticket, grant.expires_at) == (ticket, clock.now + TAKE_UP)

    def test_one_with_a_part_of_its_grant_waits(self, store: Store, clock: Clock) -> None:
        """Let the grant end at one claim first: a store ends only so many overdue grants in one call."""
        many, both = claim(60), claim(60) + claim(of="disk")
        for n in range(60):
            admitted(store, many, f"h{n}")
        ticket = parks(store, both, "b")
        store.release("h0", many)
        assert granted(store) == granted(store, "disk") == [ticket]
        clock.advance(LEASE)
        admitted(store, claim(of="disk"), "x")
        attached(store, ticket, both, b"b")
        assert [held.holder for held in store.snapshot("disk").holders] == ["x"]
