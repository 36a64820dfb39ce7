"""Test what a grant to a session is: when it is given, how long it lasts, and how it is taken up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.store import HandedOn
from tests.conformance.acquisition import admitted, claim, refused
from tests.conformance.sessions.session_calls import S, T, held, holding, nonces, reachable
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import BOTH, granted

if TYPE_CHECKING:
    from celery_semaphore.core.session import HeldWait
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


def granted_to_the_first(store: Store, clock: Clock) -> tuple[HeldWait, HeldWait]:
    """Return two waits of one session; the first one was granted a permit."""
    store.ask(S)
    admitted(store, claim(), "a")
    first = held(store, "b")
    clock.advance(0.001)
    second = held(store, "c")
    store.release("a", claim())
    return first, second


class SessionGrants(Suite):
    def test_a_release_grants_to_a_held_wait(self, store: Store, clock: Clock) -> None:
        """E4: no message is sent; the session learns of the grant when it asks."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert store.ask(S).granted == frozenset()
        assert store.release("a", claim()) == HandedOn(granted=nonces(wait))
        (grant,) = store.snapshot("api").holders
        assert (grant.ticket, grant.granted) == (wait.ticket, True)
        assert grant.expires_at == clock.now + GRANT_S
        assert store.ask(S).granted == nonces(wait)
        assert store.ask(S).granted == nonces(wait), "an answer may be lost"
        assert store.ask(T).granted == frozenset()

    def test_a_grant_is_taken_up(self, store: Store, clock: Clock) -> None:
        """E8, A10: another holder takes it up, for each delivery has its own holder."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        token = store.snapshot("api").holders[0].token
        clock.advance(GRANT_S / 2)
        permit = admitted(store, claim(), "b2", holding(ticket=wait.ticket))
        assert permit.token == token
        assert permit.expires_at == clock.now + LEASE
        assert store.ask(S).granted == frozenset()
        store.release("b2", claim())
        assert list(store.resources()) == []

    def test_it_is_granted_all_its_claims(self, store: Store) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=BOTH)
        assert store.release("a", BOTH).granted == nonces(wait)
        assert granted(store) == granted(store, "disk") == [wait.ticket]
        assert store.ask(S).granted == nonces(wait)
        admitted(store, BOTH, "b", holding(ticket=wait.ticket))
        store.release("b", BOTH)
        assert list(store.resources()) == []

    def test_refused_elsewhere_it_moves_there(self, store: Store) -> None:
        """H8: its session still learns of the grant."""
        store.ask(S)
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "x")
        wait = held(store, "b", claims=BOTH)
        assert store.release("a", claim()) == HandedOn()
        assert (store.snapshot("api").waiting, reachable(store, "disk")) == (0, [wait.ticket])
        assert store.release("x", claim(of="disk")).granted == nonces(wait)
        assert store.ask(S).granted == nonces(wait)

    def test_a_grant_ends_after_two_seconds(self, store: Store, clock: Clock) -> None:
        """E7: its session asked since, so this wait alone is in transit, at its place."""
        first, second = granted_to_the_first(store, clock)
        clock.advance(GRANT_S - 0.001)
        store.ask(S)
        assert granted(store) == [first.ticket]
        clock.advance(0.001)
        assert not store.reap()
        assert store.ask(S).granted == nonces(second)
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.ticket, waiter.session, waiter.reachable) == (first.ticket, S, False)
        again = refused(store, claim(), "b2", holding(ticket=first.ticket))
        assert (again.ticket, again.position) == (first.ticket, 0)

    def test_a_grant_of_several_claims_to_a_held_wait_ends_as_soon(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=BOTH)
        store.release("a", BOTH)
        clock.advance(GRANT_S - 0.001)
        assert granted(store) == granted(store, "disk") == [wait.ticket]
        clock.advance(0.001)
        store.reap()
        assert granted(store) == granted(store, "disk") == []

    def test_what_is_being_taken_up_is_not_ended(self, store: Store, clock: Clock) -> None:
        """Q4: the task waits for a process, and its worker names it in each question."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        for _ in range(5):
            clock.advance(GRANT_S - 0.001)
            assert store.ask(S, begun=[wait]).granted == nonces(wait)
            assert not store.reap()
        clock.advance(GRANT_S - 0.001)
        admitted(store, claim(), "b2", holding(ticket=wait.ticket))

    def test_of_several_claims_all_are_prolonged(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=BOTH)
        store.release("a", BOTH)
        clock.advance(GRANT_S / 2)
        store.ask(S, begun=[wait])
        clock.advance(GRANT_S / 2)
        store.reap()
        assert granted(store) == granted(store, "disk") == [wait.ticket]

    def test_another_session_prolongs_nothing(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S / 2)
        assert store.ask(T, begun=[wait]).granted == frozenset()
        clock.advance(GRANT_S / 2)
        store.reap()
        assert granted(store) == []

    def test_an_overdue_grant_is_not_told(self, store: Store, clock: Clock) -> None:
        """Leave it out of the answer though nothing was reaped yet."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S)
        assert store.ask(S, begun=[wait]).granted == frozenset()

    def test_a_holder_with_a_line_feed_in_its_name_is_told(self, store: Store) -> None:
        """The name begins with the id of the task, which is the sender's."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b\nc\n:1")
        assert store.release("a", claim()).granted == nonces(wait)
        assert store.ask(S).granted == store.ask(S, begun=[wait]).granted == nonces(wait)

    def test_a_grant_that_is_given_up_goes_to_the_next(self, store: Store, clock: Clock) -> None:
        first, second = granted_to_the_first(store, clock)
        store.release(first.ticket, claim())
        assert store.ask(S).granted == nonces(second)
