"""Test waits of parked messages that end without a permit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, named, parked, refused, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class EndedWaits(Suite):
    @pytest.mark.parametrize("ends_in", [10.0, 1000 * LEASE])
    def test_a_wait_ends_by_itself(self, store: Store, clock: Clock, ends_in: float) -> None:
        """End the wait without any release."""
        store.set_limit(0, "api")
        ticket = named(store, "b", ends_in)
        clock.advance(ends_in - 1)
        assert not store.reap()
        clock.advance(1)
        (over,) = reaped(store)
        assert (over.ticket, over.token, over.payload) == (ticket, 0, b"b")
        assert store.snapshot("api").waiting == store.snapshot("api").occupied == 0

    def test_a_wait_can_be_ended(self, store: Store) -> None:
        admitted(store, claim(), "a")
        named(store, "b")
        named(store, "c")
        assert store.end(["b", "unknown"]) == {"api"}
        (over,) = store.take(frozenset({"api"}))
        assert (over.payload, over.token) == (b"b", 0)
        assert not store.end(["b"])
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_what_was_granted_is_not_ended(self, store: Store) -> None:
        admitted(store, claim(), "a")
        named(store, "b")
        outgoing = store.release("a", claim()).outgoing
        store.end(["b"])
        assert [grant.token > 0 for grant in store.take(outgoing)] == [True]

    def test_an_ended_one_is_granted_nothing(self, store: Store) -> None:
        admitted(store, claim(), "a")
        named(store, "b")
        parked(store, claim(), "c")
        store.end(["b"])
        assert sorted(messages(released(store, "a", claim()))) == [b"b", b"c"]
        assert store.snapshot("api").occupied == 1

    def test_an_ended_one_blocks_nobody(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        named(store, "b")
        clock.advance(1)
        store.end(["b"])
        store.set_limit(2, "api")
        admitted(store, claim(), "c")
        assert refused(store, claim(), "d").position == 0

    def test_an_ended_one_comes_until_it_is_sent(self, store: Store, clock: Clock) -> None:
        """Offer it again: the worker that took it may have died before the broker had it."""
        store.set_limit(0, "api")
        named(store, "b", 10.0)
        clock.advance(10)
        assert messages(reaped(store)) == [b"b"]
        assert not store.reap()
        clock.advance(TAKE_UP)
        (over,) = reaped(store)
        assert (over.payload, over.token) == (b"b", 0)
        store.sent([over])
        clock.advance(10 * TAKE_UP)
        assert not store.reap()
        assert list(store.resources()) == []

    def test_a_call_that_waits_too_long_times_out(self, store: Store, clock: Clock) -> None:
        """Refuse it even though a permit is free: its timeout is over."""
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", Wait(Kind.BLOCK)).ticket
        clock.advance(11)
        store.release("a", claim())
        late = came_back(ticket, Kind.BLOCK, timeout=10.0)
        assert why(store, claim(), "b2", late) is Reason.TIMED_OUT

    def test_a_grant_in_time_is_not_too_late(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        clock.advance(9)
        store.sent(released(store, "a", claim()))
        clock.advance(2)
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK, timeout=10.0))

    def test_a_grant_that_is_overdue_is_ended(self, store: Store, clock: Clock) -> None:
        """End it though no call has noticed yet that its message stands in line again."""
        admitted(store, claim(), "a")
        named(store, "b")
        released(store, "a", claim())
        clock.advance(TAKE_UP)
        (over,) = store.take(store.end(["b"]))
        assert (over.payload, over.token) == (b"b", 0)

    def test_a_wait_that_ends_while_it_is_granted_is_granted_once(
        self, store: Store, clock: Clock
    ) -> None:
        """Take the message; the worker that took it dies before the broker has it."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b", ends_in=10.0)
        assert [grant.token > 0 for grant in released(store, "a", claim())] == [True]
        clock.advance(TAKE_UP / 2 + 1)
        assert reaped(store) == []
        clock.advance(TAKE_UP / 2 - 1)
        (over,) = reaped(store)
        assert (over.ticket, over.token, over.payload) == (ticket, 0, b"b")
        assert store.snapshot("api").occupied == 0
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK, timeout=10.0))
        assert reaped(store) == []

    def test_waits_that_end_while_they_are_granted_keep_no_other_from_its_end(
        self, store: Store, clock: Clock
    ) -> None:
        """Find the other wait's end though each call looks only at so many waits."""
        most = 60
        for n in range(most):
            admitted(store, claim(most), f"a{n}")
        for n in range(most):
            parked(store, claim(most), f"b{n}", ends_in=5.0)
        for n in range(most):
            released(store, f"a{n}", claim(most))
        assert store.snapshot("api").occupied == most
        parked(store, claim(most), "c", ends_in=6.0)
        clock.advance(7)
        found = [message for _ in range(5) for message in messages(reaped(store))]
        assert found == [b"c"]

    def test_an_ended_wait_may_park_again(self, store: Store, clock: Clock) -> None:
        """Deliver the message to a worker that does not know the revocation and runs it."""
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        store.end(["b"])
        store.sent(store.take(frozenset({"api"})))
        clock.advance(1)
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert not store.attach(ticket, claim(), b"b again")
        assert messages(released(store, "a", claim())) == [b"b again"]

    def test_an_ended_one_that_is_parked_again_is_not_forgotten(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        late = store.take(store.end(["b"]))
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert not store.attach(ticket, claim(), b"b again", name="b")
        store.sent(late)
        assert messages(store.take(store.end(["b"]))) == [b"b again"]

    def test_what_was_sent_late_does_not_forget_what_another_took(
        self, store: Store, clock: Clock
    ) -> None:
        """Park it anew and end it again; the worker that took it then may die before the broker has it."""
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        late = store.take(store.end(["b"]))
        clock.advance(1)
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert not store.attach(ticket, claim(), b"b again", name="b")
        assert messages(store.take(store.end(["b"]))) == [b"b again"]
        store.sent(late)
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"b again"]

    def test_an_ended_one_that_asks_again_does_not_end_at_once(
        self, store: Store, clock: Clock
    ) -> None:
        """Keep its record, too: the worker that sent its message may not have reported that yet."""
        store.set_limit(0, "api")
        ticket = named(store, "b", 10.0)
        clock.advance(10)
        assert messages(reaped(store)) == [b"b"]
        clock.advance(1)
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        clock.advance(TAKE_UP - 2)
        assert reaped(store) == []
        assert store.snapshot("api").waiting == 1
        clock.advance(1)
        assert messages(reaped(store)) == [b"b"]

    def test_a_name_that_two_tickets_had_finds_the_newer(self, store: Store, clock: Clock) -> None:
        """Use one task id twice."""
        admitted(store, claim(), "a")
        first = named(store, "b")
        clock.advance(1)
        ticket = refused(store, claim(), "b2", Wait(Kind.PARK)).ticket
        assert ticket
        store.attach(ticket, claim(), b"newer", name="b")
        store.release(first, claim())
        assert messages(store.take(store.end(["b"]))) == [b"newer"]

    def test_a_name_that_a_message_had_finds_it_no_more(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        store.attach(ticket, claim(), b"anew", name="c")
        assert not store.end(["b"])
        assert messages(store.take(store.end(["c"]))) == [b"anew"]

    def test_ending_what_is_on_its_way_ends(self, store: Store) -> None:
        admitted(store, claim(), "a")
        named(store, "b")
        store.release("a", claim())
        assert store.end(["b"]) <= {"api"}

    def test_all_that_ends_is_found_in_the_end(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        names = [str(n) for n in range(150)]
        for n in names:
            wanted = claim(key=n)
            ticket = refused(store, wanted, n, Wait(Kind.PARK)).ticket
            assert ticket
            store.attach(ticket, wanted, n.encode(), ends_in=1.0)
        clock.advance(1)
        found = [message for _ in range(5) for message in messages(reaped(store))]
        assert sorted(found) == sorted(n.encode() for n in names)
