"""Test the counts of waits, in each of their states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, refused, requeued
from tests.conformance.sessions.session_calls import S, examine_line, held, holding
from tests.conformance.suite import Suite
from tests.conformance.totals.totals import counted, line

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

BOTH = claim() + claim(of="disk")


class WaitTotals(Suite):
    def test_each_way_to_wait_is_counted(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        for holder in "bcd":
            parked(store, claim(), holder)
        for holder in "ef":
            held(store, holder)
        requeued(store, claim(), "g")
        assert line(counted(store)) == (3, 2, 1, 0)

    def test_a_message_that_is_not_attached_yet_is_in_transit(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", Wait(Kind.PARK)).ticket
        assert line(counted(store)) == (0, 0, 1, 0)
        assert ticket
        store.attach(ticket, claim(), b"b")
        assert line(counted(store)) == (1, 0, 0, 0)

    def test_who_sleeps_is_in_transit_once_it_is_looked_at(self, store: Store) -> None:
        store.ask(S)
        store.set_limit(0, "api")
        parked(store, claim(), "b")
        held(store, "c", priority=1)
        assert line(counted(store)) == (1, 1, 0, 0)
        store.sleep(S)
        assert line(counted(store)) == (1, 1, 0, 0)
        examine_line(store)
        assert line(counted(store)) == (1, 0, 1, 0)

    def test_what_was_set_aside_is_counted_where_it_waits(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(3), "a")
        parked(store, claim(3, weight=3), "b")
        held(store, "c", claims=claim(3, weight=2))
        parked(store, claim(3), "d")
        requeued(store, claim(3, weight=3), "e")
        store.set_limit(1, "api")
        assert line(counted(store)) == (2, 1, 1, 2)
        store.set_limit(None, "api")
        assert counted(store).set_aside == 0

    def test_the_oldest_of_all_priorities(self, store: Store, clock: Clock) -> None:
        """Find it behind the first in line, and in each line."""
        store.ask(S)
        admitted(store, claim(), "a")
        assert counted(store).oldest_wait is None
        tickets = [requeued(store, claim(), "b", priority=9)]
        for n, priority in enumerate((0, 255, 3, 0, 255)):
            clock.advance(1)
            tickets.append(parked(store, claim(), f"p{n}", priority=priority))
        clock.advance(1)
        for n, expected in enumerate((6.0, 5.0, 4.0, 3.0, 2.0, 1.0)):
            assert counted(store).oldest_wait == expected
            store.release(tickets[n], claim())
        assert counted(store).oldest_wait is None

    def test_the_oldest_is_found_in_each_line(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(2), "a")
        parked(store, claim(2, weight=2), "heavy")
        store.set_limit(1, "api")
        clock.advance(1)
        requeued(store, claim(2), "b")
        clock.advance(1)
        held(store, "c", claims=claim(2))
        assert (counted(store).oldest_wait, counted(store).set_aside) == (2.0, 1)

    def test_a_wait_from_the_future_has_not_waited(self, store: Store, clock: Clock) -> None:
        """Let the server's clock step back."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        clock.advance(-5)
        (totals,) = store.totals(["api"])
        assert totals.oldest_wait == 0.0

    def test_what_a_session_is_granted_is_no_wait(self, store: Store, clock: Clock) -> None:
        """E7: it is in transit once it was not taken up."""
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        held(store, "c")
        parked(store, claim(), "d")
        store.release("a", claim())
        totals = counted(store)
        assert (totals.granted, totals.outbox, line(totals)) == (1, 0, (1, 1, 0, 0))
        clock.advance(GRANT_S)
        totals = counted(store)
        assert (totals.granted, line(totals)) == (0, (1, 1, 0, 0))
        store.set_limit(0, "api")
        assert line(counted(store)) == (1, 0, 2, 0)

    def test_a_grant_on_two_resources_is_a_wait_on_none(self, store: Store) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        held(store, "b", claims=BOTH)
        parked(store, BOTH, "c")
        assert line(counted(store)) == (1, 1, 0, 0)
        assert counted(store, "disk").waiting == 0
        store.release("a", BOTH)
        for name in ("api", "disk"):
            totals = counted(store, name)
            assert (totals.held, totals.granted) == (0, 1)
        assert (line(counted(store)), counted(store).outbox) == ((1, 0, 0, 0), 0)

    def test_a_wait_that_moved_is_counted_where_it_is(self, store: Store) -> None:
        """H8: with its message."""
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        parked(store, BOTH, "b")
        store.release("a", claim())
        assert line(counted(store)) == (0, 0, 0, 0)
        assert line(counted(store, "disk")) == (1, 0, 0, 0)

    def test_a_message_that_was_parked_and_comes_back_requeued(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        refused(store, claim(), "b2", holding(ticket=ticket))
        assert line(counted(store)) == (0, 1, 0, 0)
