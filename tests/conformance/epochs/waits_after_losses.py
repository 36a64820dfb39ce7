"""Test which held waits can be granted after a store lost its last moments: those that were named or refused since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.session import GRANT_S, Standing
from tests.conformance.acquisition import admitted, came_back, claim
from tests.conformance.grants import reaped, released
from tests.conformance.sessions.session_calls import (
    HOUR,
    S,
    T,
    forgotten_after,
    held,
    held_in_turn,
    holding,
    nonces,
    reachable,
)
from tests.conformance.suite import GRACE, LEASE, Suite
from tests.conformance.waiting.calling import BOTH, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class WaitsAfterLosses(Suite):
    def test_a_held_wait_whose_grant_was_not_taken_up_is_granted_anew(
        self, store: Store, clock: Clock
    ) -> None:
        """N2: its grant ended while the server was away, and no answer tells it; it must not cost another grant."""
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=tuple(BOTH))
        clock.advance(0.001)
        held(store, "c")
        store.release("a", BOTH)
        clock.advance(GRANT_S + 1)
        self.remember(store)()
        assert store.ask(S).granted == frozenset()
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert granted(store) == []
        clock.advance(GRACE)
        store.reap()
        assert store.ask(S).granted == nonces(wait)

    def test_a_wait_whose_end_is_forgotten_gets_no_grant(self, store: Store, clock: Clock) -> None:
        """H5: no session would take the grant up, and the permit would idle for as long as a grant lasts."""
        store.ask(S)
        permit = admitted(store, claim(), "a")
        ended, wait = held_in_turn(store, clock, "bc")
        lose_the_rest = self.remember(store)
        store.release("b", claim())
        lose_the_rest()
        store.ask(S)
        assert reachable(store) == []
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert reachable(store) == [wait.ticket]
        store.renew([permit])
        clock.advance(GRACE)
        store.ask(S)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)
        assert store.snapshot("api").waiting == 1, "the other keeps its place for a while"
        clock.advance(LEASE)
        store.reap()
        assert ended.ticket not in [each.ticket for each in store.snapshot("api").waiters]

    def test_a_release_grants_nothing_to_a_wait_that_was_not_named(
        self, store: Store, clock: Clock
    ) -> None:
        """H5: neither as the first in line nor as the one behind it."""
        store.ask(S)
        admitted(store, claim(), "a")
        first, second, third = held_in_turn(store, clock, "bcd")
        self.remember(store)()
        store.ask(S)
        store.name(S, [first, third])
        clock.advance(GRACE)
        store.ask(S)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(first)
        (behind, _) = store.snapshot("api").waiters
        assert behind.ticket == second.ticket
        assert behind.due > clock.now - 1, "it was put in transit just now"
        admitted(store, claim(), "b2", came_back(first.ticket))
        store.release("b2", claim())
        assert store.ask(S).granted == nonces(third)
        assert [each.ticket for each in store.snapshot("api").waiters] == [second.ticket]

    def test_in_the_grace_no_call_puts_a_wait_in_transit(self, store: Store, clock: Clock) -> None:
        """H1: its session is about to name it; all of a long line would be moved twice."""
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        (before,) = store.snapshot("api").waiters
        self.remember(store)()
        clock.advance(GRACE / 2)
        store.ask(S)
        released(store, "unknown", claim())
        reaped(store)
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.due, waiter.reachable) == (before.due, False)

    def test_a_grant_that_a_message_cannot_take_up_leaves_nobody_in_line(
        self, store: Store, clock: Clock
    ) -> None:
        """A11: its session did not name the wait in this epoch, so it stands in transit, and not in the way."""
        store.ask(S)
        admitted(store, claim(), "a")
        store.acquire(claim(), "b", holding(S), MessageId("task:b", remember_for=HOUR))
        store.release("a", claim())
        store.set_limit(2, "api")
        admitted(store, claim(), "other")
        self.remember(store)()
        store.ask(S)
        clock.advance(1.0)
        answer = store.acquire(
            claim(), "again", None, MessageId("task:b", "again", remember_for=HOUR)
        )
        assert isinstance(answer, Refusal)
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.due, waiter.reachable) == (clock.now, False)
        assert store.totals(["api"])[0].in_transit == 1

    def test_a_session_names_what_was_granted_before(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        self.remember(store)()
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert store.ask(S).granted == nonces(wait)

    def test_a_session_names_what_was_set_aside(self, store: Store, clock: Clock) -> None:
        heavy = claim(2, weight=2)
        store.ask(S)
        admitted(store, heavy, "a")
        wait = held(store, "b", claims=tuple(heavy))
        store.set_limit(1, "api")
        self.remember(store)()
        store.ask(S)
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        clock.advance(GRACE)
        store.ask(S)
        store.release("a", heavy)
        assert store.ask(S).granted == frozenset()
        store.set_limit(2, "api")
        store.reap()
        assert store.ask(S).granted == nonces(wait)

    def test_what_was_set_aside_before_is_in_transit(self, store: Store, clock: Clock) -> None:
        """E5: it never comes to the head of the line, so a sweep must look."""
        heavy = claim(2, weight=2)
        store.ask(S)
        admitted(store, heavy, "a")
        held(store, "b", claims=tuple(heavy))
        store.set_limit(1, "api")
        store.reap()
        self.remember(store)()
        store.ask(S)
        clock.advance(LEASE)
        store.ask(S)
        store.reap()
        assert reachable(store) == []
        forgotten_after(LEASE, store, clock)

    def test_what_was_set_aside_is_named_asleep(self, store: Store, clock: Clock) -> None:
        """Put it in transit once: a sweep must not put it there anew."""
        heavy = claim(2, weight=2)
        store.ask(S)
        admitted(store, heavy, "a")
        wait = held(store, "b", claims=tuple(heavy), keeps=HOUR)
        store.set_limit(1, "api")
        self.remember(store)()
        store.sleep(S)
        clock.advance(LEASE)
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        clock.advance(LEASE)
        store.reap()
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.reachable, waiter.due) == (False, clock.now - LEASE)

    def test_a_refusal_in_the_new_epoch_is_enough(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        self.remember(store)()
        store.ask(S)
        held(store, "b2", ticket=wait.ticket)
        assert reachable(store) == [wait.ticket]
        clock.advance(GRACE)
        store.ask(S)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)

    def test_no_other_session_gets_a_wait_by_naming_it(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        self.remember(store)()
        store.ask(T)
        assert store.name(T, [wait]) == {wait.ticket: Standing.ELSEWHERE}
        assert reachable(store) == []
        store.ask(S)
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert reachable(store) == [wait.ticket]
