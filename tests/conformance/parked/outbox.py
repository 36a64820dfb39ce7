"""Test messages on their way out: any process may hand them on, and one with a broker sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import resource_name
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, why
from tests.conformance.grants import limited, messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

BOTH = claim() + claim(of="disk")


class Outbox(Suite):
    def test_who_hands_on_says_where(self, store: Store) -> None:
        admitted(store, claim(key="k"), "a")
        parked(store, claim(key="k"), "b")
        assert store.release("a", claim(key="k")).outgoing == {"api/k"}

    def test_each_message_is_taken_once(self, store: Store) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        outgoing = store.release("a", claim()).outgoing
        assert messages(store.take(outgoing)) == [b"b"]
        assert store.take(outgoing) == []

    def test_a_repeated_release_says_it_again(self, store: Store) -> None:
        """Repeat a release, because its answer was lost."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        assert (
            store.release("a", claim()).outgoing == store.release("a", claim()).outgoing == {"api"}
        )
        assert messages(released(store, "a", claim())) == [b"b"]
        assert not store.release("a", claim()).outgoing

    def test_what_nobody_takes_is_found_by_reaping(self, store: Store) -> None:
        """Hand on by a client without a broker, or by one that dies."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.release("a", claim())
        assert store.reap() == {"api"}
        assert messages(reaped(store)) == [b"b"]
        assert not store.reap()

    @pytest.mark.parametrize("swept", [False, True], ids=["", "reaped before"])
    @pytest.mark.parametrize("claims", [claim(), BOTH], ids=["one", "both"])
    def test_the_permit_of_one_that_does_not_arrive_is_handed_on(
        self, store: Store, clock: Clock, claims: list[Claim], *, swept: bool
    ) -> None:
        """Send a message to a queue without a worker: it keeps its place, and the next in line gets the permit.

        A sweep may reap between ``take`` and ``sent``, when nothing is overdue.
        """
        admitted(store, claims, "a")
        first = parked(store, claims, "b")
        clock.advance(1)
        second = parked(store, claims, "c")
        (grant,) = released(store, "a", claims)
        if swept:
            assert not store.reap()
        store.sent([grant], arrive=False)
        (other,) = reaped(store)
        assert (grant.ticket, other.ticket) == (first, second)
        assert refused(store, claims, "b2", came_back(first, Kind.PARK)).ticket == first
        store.attach(first, claims, b"b")
        store.sent([grant], arrive=False)  # its answer was lost
        parked(store, claims, "d")
        admitted(store, claims, "c2", came_back(second, Kind.PARK))
        assert messages(released(store, "c2", claims)) == [b"b"]

    def test_one_that_does_not_arrive_may_come_before_the_reap(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()), arrive=False)
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert not store.reap()
        assert why(store, claim(), "c") is Reason.SATURATED

    def test_taking_nothing_is_nothing(self, store: Store) -> None:
        assert store.take(frozenset()) == []
        assert store.take(frozenset({"never used"})) == []
        assert list(store.resources()) == []
        store.sent([])

    def test_many_are_taken(self, store: Store) -> None:
        store.set_limit(0, "api")
        for n in range(250):
            parked(store, claim(1000), f"h{n:03}")
        outgoing = store.set_limit(None, "api")
        taken: list[bytes] = []
        while grants := store.take(outgoing):
            taken += messages(grants)
        assert taken == [b"h%03d" % n for n in range(250)]

    def test_on_several_claims_it_is_taken_once(self, store: Store) -> None:
        admitted(store, BOTH, "a")
        parked(store, BOTH, "b")
        assert messages(released(store, "a", BOTH)) == [b"b"]
        assert not store.reap()

    def test_one_that_was_sent_is_forgotten(self, store: Store, clock: Clock) -> None:
        """Keep its permit until its holder comes, and free it if the holder never does."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        assert why(store, claim(), "c") is Reason.SATURATED
        clock.advance(TAKE_UP)
        assert not store.reap()
        assert list(store.resources()) == []

    def test_sending_starts_the_time_to_take_it_up(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        grants = released(store, "a", claim())
        clock.advance(TAKE_UP - 1)
        store.sent(grants)
        clock.advance(TAKE_UP - 1)
        assert why(store, claim(), "c") is Reason.SATURATED
        permit = admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert permit.token == grants[0].token

    def test_beside_room_it_takes_up_what_is_its_own(self, store: Store) -> None:
        for holder in "ao":
            admitted(store, claim(2), holder)
        ticket = parked(store, claim(2), "b")
        grants = released(store, "a", claim(2))
        store.sent(grants)
        store.release("o", claim(2))
        permit = admitted(store, claim(2), "b2", came_back(ticket, Kind.PARK))
        assert permit.token == grants[0].token
        assert store.snapshot("api").occupied == 1

    def test_who_gets_the_place_of_a_grant_holds_it(self, store: Store, clock: Clock) -> None:
        """End the new holder's lease, so that it never runs again."""
        for holder in "ao":
            admitted(store, claim(2), holder)
        parked(store, claim(2), "b")
        store.sent(released(store, "a", claim(2)))
        clock.advance(TAKE_UP)
        store.reap()
        admitted(store, claim(2), "c")
        clock.advance(LEASE)
        store.reap()
        assert why(store, claim(2), "c") is Reason.RELEASED

    def test_one_that_is_late_goes_to_its_place(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        clock.advance(1)
        parked(store, claim(), "c")
        store.sent(released(store, "a", claim()))
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"c"]
        again = refused(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert (again.ticket, again.position) == (ticket, 0)

    def test_sending_after_it_was_taken_up_changes_nothing(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        grants = released(store, "a", claim())
        permit = admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        store.sent(grants)
        assert store.snapshot("api").occupied == 1
        assert admitted(store, claim(), "b2", came_back(ticket, Kind.PARK)) == permit

    def test_one_sent_too_late_keeps_nothing(self, store: Store, clock: Clock) -> None:
        """End its grant before it is sent; the wait is granted again, for another publisher."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        late = released(store, "a", claim())
        clock.advance(TAKE_UP)
        (again,) = reaped(store)
        store.sent(late)
        assert store.snapshot("api").holders[0].token == again.token
        store.sent([again])
        clock.advance(TAKE_UP)
        assert not store.reap()
        assert list(store.resources()) == []

    def test_taken_up_before_it_was_taken(self, store: Store) -> None:
        """Take the grant up by a copy of its message."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        outgoing = store.release("a", claim()).outgoing
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert store.take(outgoing) == []
        assert not store.release("b2", claim()).outgoing
        assert list(store.resources()) == []

    def test_a_raised_limit_says_where(self, store: Store) -> None:
        store.set_limit(0, "api")
        parked(store, claim(key="k"), "b")
        parked(store, claim(key="l"), "c")
        assert store.set_limit(None, "api") == {"api/k", "api/l"}
        assert limited(store, None, "api") != []

    def test_one_that_is_parked_again_is_not_forgotten(self, store: Store, clock: Clock) -> None:
        """Deliver it late, and park it anew before its sender can report that it was sent."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        late = released(store, "a", claim())
        clock.advance(TAKE_UP)
        admitted(store, claim(), "a2", came_back(ticket, Kind.PARK))
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert not store.attach(ticket, claim(), b"b again")
        store.sent(late)
        assert messages(released(store, "a2", claim())) == [b"b again"]

    def test_a_key_of_any_length_can_be_sent(self, store: Store, clock: Clock) -> None:
        wanted = [Claim("api", "k" * 60, 1, 1, resource_name("api", "k" * 600))]
        admitted(store, wanted, "a")
        parked(store, wanted, "b")
        (grant,) = released(store, "a", wanted)
        assert [one.resource for one in grant.claims] == [wanted[0].resource]
        store.sent([grant])
        clock.advance(TAKE_UP)
        assert not store.reap()
        assert list(store.resources()) == []
