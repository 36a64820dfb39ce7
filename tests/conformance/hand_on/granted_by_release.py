"""Test what a release tells of the waits that it granted: a process that holds one need not ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.store import HandedOn
from tests.conformance.acquisition import admitted, claim, parked
from tests.conformance.sessions.session_calls import S, T, held, nonces
from tests.conformance.sessions.session_grants import granted_to_the_first
from tests.conformance.suite import Suite
from tests.conformance.waiting.calling import BOTH, calling

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class GrantedByRelease(Suite):
    """R7: the answer of a release has the grants of sessions that its hand-on made."""

    def test_it_tells_of_all_sessions(self, store: Store, clock: Clock) -> None:
        """Name the waits of other sessions, too: a release does not say which process made it."""
        for session in (S, T):
            store.ask(session)
        admitted(store, claim(3, weight=3), "a")
        waits = [held(store, name, session, claim(3)) for name, session in (("b", S), ("c", T))]
        clock.advance(0.001)
        caller = calling(store, claim(3), "d")
        assert store.release("a", claim(3)).granted == nonces(*waits) | {caller.nonce}

    def test_it_tells_of_each_grant_once(self, store: Store) -> None:
        """Tell a grant in the answer of one release; each question of its session tells it again."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert store.release("a", claim()).granted == nonces(wait)
        assert store.release("a", claim()) == HandedOn()
        assert store.ask(S).granted == nonces(wait)

    def test_it_tells_of_no_grant_of_before(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        for name in ("a1", "a2"):
            admitted(store, claim(2), name)
        first = held(store, "b", claims=claim(2))
        clock.advance(0.001)
        second = held(store, "c", claims=claim(2))
        assert store.release("a1", claim(2)).granted == nonces(first)
        assert store.release("a2", claim(2)).granted == nonces(second)

    def test_a_parked_wait_is_outgoing_instead(self, store: Store, clock: Clock) -> None:
        """Do not tell it: the process that takes the message out of the outbox sends it."""
        store.ask(S)
        admitted(store, claim(2, weight=2), "a")
        parked(store, claim(2), "b")
        clock.advance(0.001)
        wait = held(store, "c", claims=claim(2))
        assert store.release("a", claim(2)) == HandedOn(frozenset({"api"}), nonces(wait))

    def test_it_tells_of_a_wait_with_claims_that_were_not_released(self, store: Store) -> None:
        """H7: the hand-on goes on in a call with all claims of the head."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b", claims=BOTH)
        assert store.release("a", claim()).granted == nonces(wait)

    def test_the_end_of_a_wait_tells_of_the_next(self, store: Store, clock: Clock) -> None:
        """R6: the first one has the only permit as a grant, and gives it up."""
        first, second = granted_to_the_first(store, clock)
        assert store.release(first.ticket, claim()).granted == nonces(second)

    def test_a_session_that_sleeps_is_granted_nothing(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        store.sleep(S)
        assert store.release("a", claim()) == HandedOn()
