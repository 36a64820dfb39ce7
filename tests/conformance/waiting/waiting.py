"""Test tickets: place, position, and when to ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, requeued, why
from tests.conformance.grants import released
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

REQUEUE = Wait(Kind.REQUEUE)


class Waiting(Suite):
    def test_who_would_not_wait_gets_no_ticket(self, store: Store) -> None:
        admitted(store, claim(), "a")
        assert refused(store, claim(), "b").ticket is None
        assert store.snapshot("api").waiting == 0

    def test_positions_count_who_is_ahead(self, store: Store) -> None:
        admitted(store, claim(), "a")
        assert [refused(store, claim(), h, REQUEUE).position for h in "bcd"] == [0, 1, 2]
        assert refused(store, claim(), "e").position == 3

    def test_a_ticket_keeps_its_place(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        first, second = requeued(store, claim(), "b"), requeued(store, claim(), "c")
        clock.advance(1)
        again = refused(store, claim(), "c2", came_back(second))
        assert (again.ticket, again.position, again.waited) == (second, 1, 1.0)
        again = refused(store, claim(), "b2", came_back(first))
        assert (again.ticket, again.position, again.waited) == (first, 0, 1.0)
        assert store.snapshot("api").waiting == 2

    def test_a_repeated_acquire_finds_its_ticket(self, store: Store, clock: Clock) -> None:
        """Find the ticket again after its answer was lost."""
        admitted(store, claim(), "a")
        first = refused(store, claim(), "b", REQUEUE)
        clock.advance(1)
        again = refused(store, claim(), "b", REQUEUE)
        assert (again.ticket, again.position) == (first.ticket, 0)
        assert store.snapshot("api").waiting == 1

    def test_a_release_takes_the_unanswered_ticket_along(self, store: Store) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "b")
        store.release("b", claim())
        assert store.snapshot("api").waiting == 0

    def test_a_ticket_can_be_given_up(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b")
        assert refused(store, claim(), "b2", came_back(ticket)).ticket == ticket
        store.release(ticket, claim())
        assert store.snapshot("api").waiting == 0

    def test_admission_takes_the_ticket_out_of_line(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b")
        store.release("a", claim())
        admitted(store, claim(), "b2", came_back(ticket))
        assert store.snapshot("api").waiting == 0

    def test_higher_priority_stands_further_ahead(self, store: Store) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "low")
        assert refused(store, claim(), "high", Wait(Kind.REQUEUE, priority=9)).position == 0
        assert refused(store, claim(), "middle", Wait(Kind.REQUEUE, priority=5)).position == 1
        assert [t.ticket.priority for t in store.snapshot("api").waiters] == [9, 5, 0]

    @pytest.mark.parametrize("priority", [-1, 256, 10_000])
    def test_any_priority_is_understood(self, store: Store, priority: int) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "b", priority=priority)
        assert 0 <= store.snapshot("api").waiters[0].ticket.priority <= 255

    def test_a_free_permit_goes_to_whoever_asks(self, store: Store) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "b")
        store.release("a", claim())
        admitted(store, claim(), "c")

    def test_a_late_ticket_is_dropped_and_blocks_nobody(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        ticket = requeued(store, claim(), "b", longest=2.0)
        clock.advance(2.0 + LEASE - 0.001)
        assert refused(store, claim(), "c").position == 1
        clock.advance(0.001)
        assert refused(store, claim(), "d").position == 0
        assert store.snapshot("api").waiting == 0
        again = refused(store, claim(), "b2", came_back(ticket))
        assert (again.ticket, again.waited) == (ticket, 2.0 + LEASE)

    def test_reaping_drops_late_tickets(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        requeued(store, claim(), "b")
        clock.advance(3 * LEASE)
        store.reap()
        assert list(store.resources()) == []

    def test_reaping_drops_late_tickets_in_time(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        clock.advance(LEASE / 2)
        requeued(store, claim(), "b", longest=1.0)
        store.renew([permit])
        clock.advance(LEASE / 2)
        store.renew([permit])
        store.reap()
        clock.advance(LEASE / 2 + 1)
        store.reap()
        assert store.snapshot("api").waiting == 0

    def test_who_comes_back_late_keeps_its_place(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        ticket = requeued(store, claim(), "b")
        clock.advance(5 * LEASE)
        store.reap()
        requeued(store, claim(), "c")
        assert refused(store, claim(), "b2", came_back(ticket)).position == 0

    def test_when_to_ask_again_without_history(self, store: Store) -> None:
        for holder in "ab":
            admitted(store, claim(2), holder)
        delays = [refused(store, claim(2), h, REQUEUE).retry_after for h in "cdef"]
        assert delays == [0.5, 1.0, 1.5, 2.0]

    def test_when_to_ask_again_follows_the_mean(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(2), "a")
        clock.advance(20)
        store.renew([permit])
        clock.advance(20)
        store.release("a", claim(2))
        assert store.snapshot("api").mean_held == 40
        for holder in "bc":
            admitted(store, claim(2), holder)
        assert refused(store, claim(2), "d", REQUEUE).retry_after == 20
        assert refused(store, claim(2), "e", REQUEUE).retry_after == 40
        assert refused(store, claim(2), "f").retry_after == 60

    def test_the_mean_forgets(self, store: Store, clock: Clock) -> None:
        for n in range(400):
            admitted(store, claim(), str(n))
            clock.advance(20 if n < 20 else 10)
            store.release(str(n), claim())
        assert store.snapshot("api").mean_held == pytest.approx(10, abs=0.1)

    def test_one_long_run_does_not_rule(self, store: Store, clock: Clock) -> None:
        for n, held in enumerate([10.0, 10.0, 10.0, 20.0]):
            admitted(store, claim(), str(n))
            clock.advance(held)
            store.release(str(n), claim())
        assert 10 < (store.snapshot("api").mean_held or 0) <= 15

    def test_only_permits_that_were_given_back_count(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(LEASE)
        store.release("a", claim())
        store.release("stranger", claim())
        assert store.snapshot("api").mean_held is None

    def test_a_grant_that_was_given_up_does_not_count(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        clock.advance(1)
        store.sent(released(store, "a", claim()))
        clock.advance(2)
        store.release(ticket, claim())
        assert store.snapshot("api").mean_held == 1.0

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            ({"shortest": 3.0}, 3.0),
            ({"longest": 0.25}, 0.25),
            ({"jitter": 1.5}, 1.5),
            ({"timeout": 0.5}, 0.5),
            ({"shortest": 3.0, "timeout": 0.5}, 0.5),
            ({"longest": float("inf"), "timeout": float("inf")}, 1.0),
        ],
    )
    def test_when_to_ask_again_is_bounded(
        self, store: Store, bounds: dict[str, Any], expected: float
    ) -> None:
        admitted(store, claim(), "a")
        assert refused(store, claim(), "b", Wait(Kind.REQUEUE, **bounds)).retry_after == expected

    def test_a_ticket_stands_where_it_is_refused(self, store: Store, clock: Clock) -> None:
        both = claim() + claim(of="disk")
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "b")
        requeued(store, claim(of="disk"), "x")
        clock.advance(1)
        ticket = requeued(store, both, "c")
        assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (1, 1)
        store.release("a", claim())
        moved = refused(store, both, "c2", came_back(ticket))
        assert (moved.claim.semaphore, moved.ticket, moved.position) == ("disk", ticket, 1)
        assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (0, 2)

    def test_a_moved_ticket_keeps_its_place(self, store: Store, clock: Clock) -> None:
        both = claim() + claim(of="disk")
        admitted(store, claim(), "a")
        ticket = requeued(store, both, "c")
        clock.advance(1)
        admitted(store, claim(of="disk"), "b")
        requeued(store, claim(of="disk"), "x")
        store.release("a", claim())
        assert refused(store, both, "c2", came_back(ticket)).position == 0

    def test_unsatisfiable_waits_for_another_limit(self, store: Store) -> None:
        refusal = refused(store, claim(1, weight=2), "a", Wait(Kind.REQUEUE, longest=300.0))
        assert (refusal.reason, refusal.retry_after) == (Reason.UNSATISFIABLE, LEASE)
        assert why(store, claim(1, weight=2), "b", Wait(Kind.REQUEUE)) is Reason.UNSATISFIABLE

    def test_a_snapshot_tells_who_waits(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(2, weight=2), "a")
        first = requeued(store, claim(2, weight=2), "b", priority=3)
        clock.advance(1)
        requeued(store, claim(2), "c")
        seen = store.snapshot("api", waiters=1)
        assert (seen.waiting, len(seen.waiters)) == (2, 1)
        waiter = seen.waiters[0]
        assert (waiter.ticket, waiter.kind, waiter.weight) == (first, Kind.REQUEUE, 2)
        assert (waiter.ticket.priority, waiter.position, waiter.unsatisfiable) == (3, 0, False)
        assert (waiter.ticket.since, waiter.due) == (clock.now - 1, clock.now - 0.5)

    def test_a_message_without_a_name_is_ended_by_none(self, store: Store) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        before = store.snapshot("api").waiters
        assert not store.end([""])
        assert store.snapshot("api").waiters == before
