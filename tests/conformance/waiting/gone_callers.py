"""Test callers that die, give up, or lose an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import GRANT_S
from tests.conformance.acquisition import admitted, claim, parked, refused, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.sessions.session_calls import forgotten_after, reachable
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import AGAIN, BOTH, SESSION, calling, calls, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class GoneCallers(Suite):
    def test_a_dead_caller_leaves_the_line(self, store: Store, clock: Clock) -> None:
        """Put its session to sleep after a lease, and keep its place for another lease."""
        store.set_limit(0, "api")
        calling(store, claim(), "dead")
        clock.advance(LEASE)
        store.release("unknown", claim())  # makes the store look at the line
        forgotten_after(LEASE, store, clock)
        assert list(store.resources()) == []

    def test_a_dead_callers_grant_goes_to_the_next(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        dead = calling(store, claim(), "dead")
        clock.advance(0.001)
        parked(store, claim(), "b")
        assert released(store, "a", claim()) == []
        clock.advance(GRANT_S - 0.001)
        assert reaped(store) == []
        assert granted(store) == [dead]
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"b"]
        assert [waiter.reachable for waiter in store.snapshot("api").waiters] == [False]

    def test_a_dead_caller_is_granted_once(self, store: Store, clock: Clock) -> None:
        """Put its wait in transit after that, or it would stop the line again and again."""
        admitted(store, claim(), "a")
        calling(store, claim(), "dead")
        store.release("a", claim())
        clock.advance(GRANT_S)
        assert not store.reap()
        assert granted(store) == []
        admitted(store, claim(), "b")
        store.release("b", claim())
        assert granted(store) == []
        clock.advance(LEASE)
        assert not store.reap()
        assert list(store.resources()) == []

    def test_dead_callers_of_one_process_idle_one_grant_at_a_time(
        self, store: Store, clock: Clock
    ) -> None:
        """E7: when their first grants end, both at once, their session sleeps, and keeps all its places."""
        for holder in "ax":
            admitted(store, claim(2), holder)
        dead = []
        for holder in ("dead0", "dead1", "dead2", "dead3"):
            dead.append(calling(store, claim(2), holder))
            clock.advance(0.001)
        for holder in "bc":
            parked(store, claim(2), holder)
            clock.advance(0.001)
        for holder in "ax":
            assert released(store, holder, claim(2)) == []
        assert granted(store) == dead[:2]
        clock.advance(GRANT_S)
        assert messages(reaped(store)) == [b"b", b"c"]
        assert store.ask(SESSION).slept
        again = refused(store, claim(2), "dead2", calls(dead[2]))
        assert (again.ticket, again.position) == (dead[2], 2)
        assert reachable(store) == [dead[2]]

    def test_a_caller_that_was_taken_for_dead_has_its_place(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, claim(), "a")
        late = calling(store, claim(), "late")
        clock.advance(1)
        calling(store, claim(), "b")
        store.release("a", claim())
        clock.advance(GRANT_S)
        store.ask(SESSION)
        store.reap()
        again = refused(store, claim(), "late", calls(late))
        assert (again.ticket, again.position) == (late, 0)

    def test_a_caller_can_give_up(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        clock.advance(0.001)
        parked(store, claim(), "c")
        assert not store.release(ticket, claim()).outgoing
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_a_callers_grant_can_be_given_up(self, store: Store, clock: Clock) -> None:
        """Grant the permit in the moment in which the caller gives up."""
        admitted(store, claim(), "a")
        first = calling(store, claim(), "b")
        clock.advance(0.001)
        second = calling(store, claim(), "c")
        store.release("a", claim())
        store.release(first, claim())
        assert granted(store) == [second]

    def test_a_caller_whose_answer_was_lost_gives_up(self, store: Store) -> None:
        """Release by the holder, for the caller does not know its ticket."""
        admitted(store, claim(), "a")
        calling(store, claim(), "b")
        store.release("b", claim())
        assert store.snapshot("api").waiting == 0
        assert not store.release("a", claim()).outgoing
        assert list(store.resources()) == []

    def test_what_was_handed_to_it_meanwhile_goes_to_the_next(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, BOTH, "a")
        calling(store, BOTH, "b")
        clock.advance(0.001)
        parked(store, claim(of="disk"), "c")
        store.release("a", BOTH)
        assert messages(released(store, "b", BOTH)) == [b"c"]
        assert store.snapshot("api").occupied == 0
        admitted(store, claim(), "d")

    def test_a_caller_finds_its_ticket(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = calling(store, claim(), "b")
        clock.advance(1)
        assert calling(store, claim(), "b") == ticket
        assert store.snapshot("api").waiting == 1

    def test_a_call_takes_no_longer_than_it_may(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        first = refused(store, claim(), "b", calls(timeout=15.0))
        clock.advance(AGAIN)
        again = refused(store, claim(), "b", calls(first.ticket, timeout=15.0))
        assert (again.retry_after, again.waited) == (5.0, AGAIN)
        clock.advance(5)
        last = refused(store, claim(), "b", calls(first.ticket, timeout=15.0))
        assert (last.reason, last.ticket) == (Reason.TIMED_OUT, None)
        assert store.snapshot("api").waiting == 0

    def test_a_call_that_took_too_long_gets_nothing(self, store: Store, clock: Clock) -> None:
        """Refuse even a permit that is free by then: the timeout is over."""
        store.set_limit(0, "api")
        ticket = refused(store, claim(), "b", calls(timeout=15.0)).ticket
        clock.advance(15)
        assert ticket
        store.release(ticket, claim())
        store.set_limit(None, "api")
        assert why(store, claim(), "b", calls(ticket, timeout=15.0)) is Reason.TIMED_OUT
        assert list(store.resources()) == []

    def test_a_callers_grant_in_time_is_not_too_late(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", calls(timeout=15.0)).ticket
        clock.advance(14)
        store.release("a", claim())
        clock.advance(1.5)
        admitted(store, claim(), "b", calls(ticket, timeout=15.0))

    def test_the_first_gets_what_is_overdue_by_asking(self, store: Store, clock: Clock) -> None:
        """End the overdue lease by an acquire: without workers, nothing reaps."""
        admitted(store, claim(), "a")
        first = calling(store, claim(), "b")
        clock.advance(0.001)
        second = calling(store, claim(), "c")
        clock.advance(LEASE / 2)
        store.ask(SESSION)
        clock.advance(LEASE / 2)
        assert why(store, claim(), "c", calls(second)) is Reason.SATURATED
        admitted(store, claim(), "b", calls(first))

    def test_a_dead_caller_of_several_claims_frees_all(self, store: Store, clock: Clock) -> None:
        admitted(store, BOTH, "a")
        calling(store, BOTH, "dead")
        store.release("a", BOTH)
        clock.advance(GRANT_S)
        assert not store.reap()
        assert granted(store) == granted(store, "disk") == []
        admitted(store, BOTH, "b")
