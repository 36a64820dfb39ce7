"""Test waits in transit: their messages are with the broker. They keep their places, and block no other.

Sessions tests the waits of sleeping sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    parked,
    refused,
    requeued,
    two_windows_later,
)
from tests.conformance.grants import messages, released
from tests.conformance.sessions.session_calls import HOUR, S, holding
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import BOTH, calling, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class InTransit(Suite):
    def test_it_is_not_reachable(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b")
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.ticket, waiter.session, waiter.reachable) == (ticket, "", False)

    def test_nothing_is_granted_to_it_and_newcomers_pass(self, store: Store) -> None:
        admitted(store, BOTH, "a")
        requeued(store, BOTH, "b")
        assert not store.release("a", BOTH).outgoing
        assert granted(store) == granted(store, "disk") == []
        assert not store.reap()
        admitted(store, BOTH, "c")

    def test_those_that_wait_in_other_ways_pass(self, store: Store, clock: Clock) -> None:
        """Let the others pass, though the wait in transit is due by then."""
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b", shortest=1.0, longest=1.0)
        clock.advance(0.5)
        parked(store, claim(), "c")
        clock.advance(0.5)
        call = calling(store, claim(), "d")
        (grant,) = released(store, "a", claim())
        assert grant.payload == b"c"
        store.sent([grant])
        admitted(store, claim(), "c2", came_back(grant.ticket, Kind.PARK))
        store.release("c2", claim())
        assert granted(store) == [call]
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [ticket]

    def test_one_of_higher_priority_is_passed_too(self, store: Store) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "urgent", priority=9)
        parked(store, claim(), "c")
        assert messages(released(store, "a", claim())) == [b"c"]

    @pytest.mark.parametrize("kind", [Kind.REQUEUE, Kind.PARK])
    def test_it_asks_again_at_its_place(self, store: Store, clock: Clock, kind: Kind) -> None:
        """Test parked waits, too: a message that was never attached may be too large for the store."""
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", Wait(kind)).ticket
        assert ticket
        clock.advance(0.5)
        parked(store, claim(), "c")
        (grant,) = released(store, "a", claim())
        again = refused(store, claim(), "b2", came_back(ticket, kind))
        assert (again.ticket, again.position) == (ticket, 0)
        store.release(grant.ticket, claim())
        admitted(store, claim(), "b3", came_back(ticket, kind))
        assert store.snapshot("api").waiting == 0

    def test_it_asks_again_before_reachable_ones_that_came_later(
        self, store: Store, clock: Clock
    ) -> None:
        """C5 looks only at the waits before it."""
        permit = admitted(store, claim(1), "a")
        ticket = requeued(store, claim(1), "b", keeps=2 * LEASE)
        clock.advance(1)
        parked(store, claim(1), "c")
        two_windows_later(store, clock, [permit])
        admitted(store, claim(2), "b2", came_back(ticket))

    def test_it_stands_in_line_at_its_place_once_it_is_held(
        self, store: Store, clock: Clock
    ) -> None:
        """E1: its second refusal names a session that is awake."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b")
        clock.advance(1)
        parked(store, claim(), "c")
        refused(store, claim(), "b2", holding(ticket=ticket))
        assert not store.release("a", claim()).outgoing
        assert granted(store) == [ticket]

    def test_its_place_is_kept_as_long_as_the_broker_may_take(
        self, store: Store, clock: Clock
    ) -> None:
        """E2, E13: it named no session."""
        store.set_limit(0, "api")
        ticket = requeued(store, claim(), "b", shortest=1.0, longest=1.0, keeps=HOUR)
        clock.advance(HOUR + 1 - 0.001)
        store.reap()
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [ticket]
        clock.advance(0.001)
        store.reap()
        assert list(store.resources()) == []

    def test_it_is_forgotten_a_lease_after_it_was_due(self, store: Store, clock: Clock) -> None:
        """E13: it makes no difference that another wait stands in line."""
        store.set_limit(0, "api")
        requeued(store, claim(), "b", shortest=1.0, longest=1.0)
        behind = parked(store, claim(), "c")
        clock.advance(1 + LEASE)
        store.reap()
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [behind]
