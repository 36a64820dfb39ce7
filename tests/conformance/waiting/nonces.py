"""Test that a wait is named by its nonce: a promotion changes its priority, and never which wait it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.ticket import HIGHEST_PRIORITY, Ticket
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    named,
    parked,
    refused,
    requeued,
)
from tests.conformance.grants import messages, released
from tests.conformance.suite import Suite
from tests.conformance.waiting.calling import SESSION, calling, calls, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

OTHER = Ticket("other", 0, 1_700_000_000_000_000)  # of another wait


def ticket_of(refusal: Refusal) -> Ticket:
    assert refusal.ticket
    return refusal.ticket


def tokens(store: Store, resource: str = "api") -> dict[str | Ticket, int]:
    return {held.ticket or held.holder: held.token for held in store.snapshot(resource).holders}


class Nonces(Suite):
    @pytest.fixture
    def old(self, store: Store, clock: Clock) -> Ticket:
        """Return the first ticket of "b", which was promoted while "a" has the permit and "c" waits."""
        admitted(store, claim(), "a")
        named(store, "c")
        clock.advance(1)
        ticket = named(store, "b")
        store.promote([ticket], "api")
        return ticket

    def test_the_old_text_gives_the_wait_up(self, store: Store, old: Ticket) -> None:
        assert not store.release(old, claim()).outgoing
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_the_old_text_gives_the_grant_up(self, store: Store, old: Ticket) -> None:
        assert messages(released(store, "a", claim())) == [b"b"]
        assert messages(released(store, old, claim())) == [b"c"]
        assert [ticket.nonce for ticket in granted(store)] == ["c"]

    def test_a_store_that_forgot_it_takes_the_text_as_it_is(
        self, store: Store, old: Ticket
    ) -> None:
        self.forget(store)
        store.epoch = None  # a first client: there is no grace
        admitted(store, claim(), "a")
        answer = refused(store, claim(), "b2", came_back(old, Kind.PARK))
        assert answer.ticket == old

    def test_a_message_without_our_header_finds_it(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "w")
        clock.advance(1)
        first = store.acquire(claim(), "b", came_back(None, Kind.PARK), MessageId("b:0"))
        assert isinstance(first, Refusal)
        store.attach(ticket_of(first), claim(), b"b", name="b")
        store.promote([ticket_of(first)], "api")
        again = MessageId("b:0", redelivered=True)
        answer = store.acquire(claim(), "b2", came_back(None, Kind.PARK), again)
        assert isinstance(answer, Refusal)
        assert ticket_of(answer) == Ticket("b", HIGHEST_PRIORITY, ticket_of(first).place)
        assert (answer.position, store.snapshot("api").waiting) == (0, 2)

    def test_a_grant_beside_the_permit_of_its_own_maker(self, store: Store) -> None:
        """Count a permit and a grant of one name as two: neither is taken for the other."""
        disk = claim(2, of="disk")
        admitted(store, claim(), "a")
        ticket = parked(store, claim() + disk, "b")
        permit = admitted(store, disk, "b", came_back(OTHER))
        (grant,) = released(store, "a", claim())
        assert tokens(store, "disk") == {"b": permit.token, ticket: grant.token}
        assert store.snapshot("disk").occupied == disk[0].limit
        assert store.renew([permit]) == {"b": Renewal.OK}
        store.sent([grant])
        store.release("b", disk)
        assert tokens(store, "disk") == {ticket: grant.token}
        admitted(store, claim() + disk, "b2", came_back(ticket, Kind.PARK))
        assert tokens(store, "disk") == {"b2": grant.token}

    def test_a_permit_beside_the_grant_that_is_given_up(self, store: Store) -> None:
        disk = claim(2, of="disk")
        admitted(store, claim(), "a")
        ticket = parked(store, claim() + disk, "b")
        permit = admitted(store, disk, "b", came_back(OTHER))
        store.release("a", claim())
        store.release(ticket, claim() + disk)
        assert tokens(store, "disk") == {"b": permit.token}
        assert store.renew([permit]) == {"b": Renewal.OK}

    def test_a_caller_that_knows_no_ticket_takes_its_grant_up(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        store.release("a", claim())
        assert granted(store) == [ticket]
        token = tokens(store)[ticket]
        assert admitted(store, claim(), "b", calls()).token == token
        assert tokens(store) == {"b": token}

    def test_a_caller_that_knows_no_ticket_comes_late(self, store: Store, clock: Clock) -> None:
        """Find its wait in transit, at its place."""
        admitted(store, claim(), "a")
        calling(store, claim(), "b")
        clock.advance(1)
        behind = calling(store, claim(), "c")
        store.release("a", claim())
        clock.advance(GRANT_S)
        store.ask(SESSION)
        store.reap()
        assert granted(store) == [behind]
        answer = refused(store, claim(), "b", calls())
        assert ticket_of(answer).place < behind.place
        assert [each.ticket.nonce for each in store.snapshot("api").waiters] == ["b"]

    def test_a_holder_whose_message_was_sent_takes_the_grant_up(self, store: Store) -> None:
        """Find the grant by the holder, which is the nonce of its wait, though it stands in no line."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        (grant,) = released(store, "a", claim())
        store.sent([grant])
        assert admitted(store, claim(), "b").token == grant.token

    def test_a_holder_that_ends_leaves_what_was_sent(self, store: Store) -> None:
        """End a delivery after its message was parked, granted and sent."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        store.release("b", claim())
        assert granted(store) == [ticket]
        assert isinstance(store.acquire(claim(), "b2", came_back(ticket)), Permit)
