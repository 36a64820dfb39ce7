"""Test a server with a clock that steps back: times that lie too far ahead are cut, once, when they are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, parked, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

STEP = 3600.0
FURTHEST = 3 * LEASE
# Seconds until a resource that no call touches is looked at, and the times that are cut there are over.
LONGEST_UNREAPED_S = 16 * LEASE


def waited(store: Store, clock: Clock) -> float:
    """Return the seconds until reaping hands a message on."""
    began = clock.now
    while not reaped(store):
        clock.advance(LEASE / 3)
        assert clock.now - began <= STEP
    return clock.now - began


def grace_ends_after_a_step(store: Store, clock: Clock) -> None:
    """Step back in the grace, which ends all the same."""
    assert why(store, claim(), "b") is Reason.RECOVERING
    clock.advance(-STEP)
    assert why(store, claim(), "c") is Reason.RECOVERING
    clock.advance(FURTHEST)
    admitted(store, claim(), "d")


class ClockSteps(Suite):
    def test_the_grace_ends(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        self.forget(store)
        grace_ends_after_a_step(store, clock)

    def test_a_dead_holders_permit_comes_back(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(-STEP)
        assert why(store, claim(), "b") is Reason.SATURATED
        clock.advance(FURTHEST)
        admitted(store, claim(), "c")

    def test_even_if_that_is_seen_in_the_grace_only(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        lose_the_rest = self.remember(store)
        lose_the_rest()
        grace_ends_after_a_step(store, clock)

    def test_those_that_live_renew(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        clock.advance(-STEP)
        store.reap()
        for _ in range(12):
            assert store.renew([permit]) == {"a": Renewal.OK}
            (held,) = store.snapshot("api").holders
            assert held.expires_at == clock.now + LEASE
            clock.advance(LEASE / 3)
        assert why(store, claim(), "b") is Reason.SATURATED

    def test_those_that_live_renew_though_no_call_came_before(
        self, store: Store, clock: Clock
    ) -> None:
        permit = admitted(store, claim(), "a")
        clock.advance(-STEP)
        assert store.renew([permit]) == {"a": Renewal.OK}
        (held,) = store.snapshot("api").holders
        assert held.expires_at == clock.now + LEASE

    def test_no_permit_was_held_for_less_than_no_time(self, store: Store, clock: Clock) -> None:
        """Count no negative time, or all waiters would ask again at once, all the time."""
        for holder in "ab":
            admitted(store, claim(2), holder)
        clock.advance(1)
        store.release("a", claim(2))
        clock.advance(-STEP)
        store.release("b", claim(2))
        assert store.snapshot("api").mean_held == 0.5

    def test_reaping_finds_the_dead(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        clock.advance(-STEP)
        assert waited(store, clock) <= LONGEST_UNREAPED_S

    def test_reaping_finds_a_grant_that_was_sent_in_vain(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        parked(store, claim(), "c")
        grants = released(store, "a", claim())
        assert messages(grants) == [b"b"]
        store.sent(grants)
        clock.advance(-STEP)
        assert waited(store, clock) <= LONGEST_UNREAPED_S

    def test_reaping_finds_a_grant_that_no_session_takes_up(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        dead = held(store, "b")
        clock.advance(0.001)
        parked(store, claim(), "c")
        store.release("a", claim())
        assert granted(store) == [dead.ticket]
        clock.advance(-STEP)
        assert waited(store, clock) <= LONGEST_UNREAPED_S
