"""Test that waits get what a lower limit leaves when it lapses: rows A4, H2 and H8 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, parked
from tests.conformance.grants import messages, reaped, released
from tests.conformance.limits.declared_limits import WINDOW, declare, to_next_window
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class LimitsInLine(Suite):
    def test_the_line_moves_when_a_lower_one_lapses(self, store: Store, clock: Clock) -> None:
        """H2: only reapers call, which look at what is due."""
        permit = admitted(store, claim(1), "a")
        to_next_window(clock)
        store.renew([permit])
        parked(store, claim(2), "b")
        clock.advance(WINDOW - 1)
        store.renew([permit])
        assert reaped(store) == []
        clock.advance(0.999)
        assert reaped(store) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"b"]

    def test_a_wait_that_came_after_the_turn_moves_when_a_lower_one_lapses(
        self, store: Store, clock: Clock
    ) -> None:
        """Nothing waited when the higher one was declared."""
        permit = admitted(store, claim(2, weight=2), "a")
        declare(store, 1)
        to_next_window(clock)
        store.renew([permit])
        declare(store, 2)
        clock.advance(WINDOW / 2)
        store.renew([permit])
        reaped(store)
        parked(store, claim(2), "b")
        clock.advance(0.001)
        parked(store, claim(2), "c")
        assert messages(released(store, "a", claim(2))) == [b"b"]
        clock.advance(WINDOW / 2 - 0.002)
        assert messages(reaped(store)) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"c"]

    def test_one_that_takes_up_a_grant_declares_for_those_behind_it(
        self, store: Store, clock: Clock
    ) -> None:
        """Let no refusal note when the lower limit lapses, and no look: the last one was before."""
        permit = admitted(store, claim(1), "a")
        ticket = parked(store, claim(2), "b")
        clock.advance(0.001)
        parked(store, claim(2), "c")
        to_next_window(clock, 1.0)
        store.renew([permit])
        store.set_limit(None, "api")  # looks at once
        clock.advance(WINDOW / 2 - 1.0)
        store.sent(released(store, "a", claim(1)))
        admitted(store, claim(2), "b2", came_back(ticket, Kind.PARK))
        clock.advance(WINDOW / 2 - 0.001)
        assert reaped(store) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"c"]

    def test_what_was_too_heavy_stands_in_line_again(self, store: Store, clock: Clock) -> None:
        """H2, H4."""
        permit = admitted(store, claim(1), "a")
        parked(store, claim(2, weight=2), "b")
        released(store, "a", permit.claims)
        assert store.totals(["api"])[0].set_aside == 1
        to_next_window(clock)
        declare(store, 2)
        assert reaped(store) == []
        to_next_window(clock)
        assert messages(reaped(store)) == [b"b"]

    def test_a_wait_that_moved_there_moves_on_when_a_lower_one_lapses(
        self, store: Store, clock: Clock
    ) -> None:
        """H8: nothing waited at the disk until a moment before, so its next look was far off."""
        permit = admitted(store, claim(1), "a")
        clock.advance(0.001)
        parked(store, claim(1) + claim(2, of="disk", weight=2), "b")
        store.declare({"disk": 1}, "w")
        to_next_window(clock, 0.5)
        store.renew([permit])
        store.declare({"disk": 2}, "w")
        for _ in range(9):
            clock.advance(WINDOW / 10)
            store.renew([permit])
            assert reaped(store) == []
        # In one call, that has all keys: another one for those of the disk would look at it.
        assert released(store, "a", claim(1) + claim(2, of="disk")) == []
        assert [store.snapshot(name).waiting for name in ("api", "disk")] == [0, 1]
        to_next_window(clock)
        assert messages(reaped(store)) == [b"b"]
