"""Test how a session names waits that have a grant: one that lasts, or one that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.session import GRANT_S, Standing
from tests.conformance.acquire.changed_tasks import DISK
from tests.conformance.acquisition import admitted, claim
from tests.conformance.sessions.session_calls import (
    HOUR,
    S,
    T,
    forgotten_after,
    held,
    nonces,
    reachable,
)
from tests.conformance.suite import GRACE, Suite
from tests.conformance.waiting.calling import BOTH, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class NamedGrants(Suite):
    def test_a_granted_wait_that_is_named_waits(self, store: Store) -> None:
        """N3: it keeps its grant."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert store.ask(S).granted == nonces(wait)
        assert granted(store) == [wait.ticket]

    def test_a_wait_whose_grant_has_ended_stands_again(self, store: Store, clock: Clock) -> None:
        """N2: no call has noticed the end yet; noticing it would put the wait in transit."""
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=tuple(BOTH))
        store.release("a", BOTH)
        clock.advance(GRANT_S)
        assert store.ask(S).granted == frozenset()
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert reachable(store) == [wait.ticket]
        store.reap()
        assert store.ask(S).granted == nonces(wait)
        assert granted(store) == granted(store, "disk") == [wait.ticket]

    def test_no_answer_tells_a_grant_that_has_ended(self, store: Store, clock: Clock) -> None:
        """Q3: even if the clock steps back before its end."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S)
        store.ask(S)
        store.name(S, [wait])
        clock.advance(-GRANT_S / 2)
        assert store.ask(S).granted == frozenset()

    def test_a_session_that_sleeps_names_a_grant_that_has_ended(
        self, store: Store, clock: Clock
    ) -> None:
        """Put the wait in transit, and keep its place from now on."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b", keeps=HOUR)
        store.release("a", claim())
        store.sleep(S)
        clock.advance(HOUR)
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.reachable, waiter.due) == (False, clock.now)
        forgotten_after(HOUR, store, clock)

    def test_what_is_free_of_the_other_claim_is_handed_on(self, store: Store, clock: Clock) -> None:
        """E7 ends the grant there, after the grace, although the wait itself can be granted nothing."""
        store.ask(S)
        store.ask(T)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=tuple(BOTH))
        clock.advance(0.001)
        other = held(store, "c", claims=DISK, session=T)
        store.release("a", BOTH)
        store.set_limit(0, "api")
        clock.advance(GRANT_S + 1)
        self.remember(store)()
        store.ask(S)
        store.ask(T)
        store.reap()
        store.name(S, [wait])
        store.name(T, [other])
        clock.advance(GRACE)
        store.ask(T)
        store.reap()
        assert granted(store, "disk") == [other.ticket]
