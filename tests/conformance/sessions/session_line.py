"""Test where the waits of sessions stand in line, awake and asleep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, refused, two_windows_later, why
from tests.conformance.grants import limited, messages, released
from tests.conformance.sessions.session_calls import (
    HOUR,
    S,
    T,
    examine_line,
    forgotten_after,
    held,
    held_in_turn,
    holding,
    lived,
    nonces,
    reachable,
)
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class SessionLine(Suite):
    def test_parked_waits_are_reachable_without_a_session(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.ticket, waiter.session, waiter.reachable) == (ticket, "", True)

    def test_one_line_for_all(self, store: Store, clock: Clock) -> None:
        """Grant permits to held and parked waits in the order of their arrival."""
        store.ask(S)
        admitted(store, claim(), "a")
        line = []
        for n, holder in enumerate("bcdefg"):
            line.append(parked(store, claim(), holder) if n % 2 else held(store, holder).ticket)
            clock.advance(0.001)
        holder = "a"
        for n, ticket in enumerate(line):
            sent = released(store, holder, claim())
            assert granted(store) == [ticket]
            assert [grant.ticket for grant in sent] == ([ticket] if n % 2 else [])
            kind = Kind.PARK if sent else Kind.REQUEUE
            holder = f"{n}-came"
            admitted(store, claim(), holder, Wait(kind, ticket, session=S))
        assert not store.release(holder, claim()).outgoing
        assert list(store.resources()) == []

    def test_newcomers_do_not_overtake_a_session(self, store: Store, clock: Clock) -> None:
        """C5: the limit has grown, and nothing was handed on yet."""
        store.ask(S)
        permit = admitted(store, claim(1), "a")
        wait = held(store, "b", claims=claim(1))
        two_windows_later(store, clock, [permit], S)
        assert why(store, claim(2), "c") is Reason.SATURATED
        assert why(store, claim(2), "d", holding()) is Reason.SATURATED
        admitted(store, claim(2), "b", holding(ticket=wait.ticket))

    def test_a_higher_priority_goes_first(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "low")
        high = held(store, "high", priority=9)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(high)

    def test_a_heavy_head_blocks_the_line(self, store: Store, clock: Clock) -> None:
        """H6: a light wait behind it gets nothing."""
        store.ask(S)
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "x")
        heavy = held(store, "heavy", claims=claim(2, weight=2))
        clock.advance(0.001)
        held(store, "light", claims=claim(2))
        store.release("a", claim(2))
        assert store.ask(S).granted == frozenset()
        store.release("x", claim(2))
        assert store.ask(S).granted == nonces(heavy)

    def test_a_raised_limit_is_handed_on_to_a_session(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        waits = held_in_turn(store, clock, "bcd")
        assert not limited(store, 3, "api")
        assert store.ask(S).granted == nonces(*waits[:2])

    def test_a_wait_of_a_sleeping_session_blocks_nobody(self, store: Store, clock: Clock) -> None:
        """H5, C5: newcomers and the waits behind it pass."""
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        clock.advance(0.001)
        behind = parked(store, claim(), "c")
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"c"]
        assert granted(store) == [behind]

    def test_newcomers_pass_a_sleeping_session(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(1), "a")
        held(store, "b", claims=claim(1))
        store.sleep(S)
        assert reachable(store) == []
        store.set_limit(2, "api")
        admitted(store, claim(1), "c")

    def test_a_wait_in_transit_keeps_its_place(self, store: Store, clock: Clock) -> None:
        """E13: it keeps its place for a lease, and is forgotten then."""
        store.set_limit(0, "api")
        store.ask(S)
        held(store, "b")
        store.sleep(S)
        examine_line(store)
        forgotten_after(LEASE, store, clock)
        assert list(store.resources()) == []

    def test_who_was_refused_asleep_is_forgotten_in_mid_line(
        self, store: Store, clock: Clock
    ) -> None:
        """E2, E13: it makes no difference that another wait is before it."""
        store.ask(S)
        admitted(store, claim(), "a")
        first = held(store, "b")
        held(store, "c", T)
        lived(store, clock, 2 * LEASE, "a")
        store.reap()
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [first.ticket]

    def test_it_keeps_its_place_as_long_as_the_broker_may_take(
        self, store: Store, clock: Clock
    ) -> None:
        """Redis delivers a dead worker's message again after its visibility timeout."""
        store.set_limit(0, "api")
        store.ask(S)
        held(store, "b", keeps=HOUR)
        store.sleep(S)
        examine_line(store)
        forgotten_after(HOUR, store, clock)
        assert list(store.resources()) == []

    def test_a_held_wait_is_not_forgotten_while_its_session_asks(
        self, store: Store, clock: Clock
    ) -> None:
        """Keep it however long it waits, and whenever it was due."""
        admitted(store, claim(), "a")
        store.ask(S)
        wait = held(store, "b")
        lived(store, clock, 3 * LEASE, "a")
        store.reap()
        assert reachable(store) == [wait.ticket]
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)

    @pytest.mark.parametrize("lapsed", [False, True])
    def test_it_keeps_its_place_as_long_however_its_session_slept(
        self, store: Store, clock: Clock, *, lapsed: bool
    ) -> None:
        """Let the session be asleep at the refusal (E2), or at the end of a grant (E7)."""
        admitted(store, claim(), "a")
        if lapsed:
            store.ask(S)
        wait = held(store, "b", keeps=HOUR)
        store.release("a", claim())
        assert granted(store) == [wait.ticket] * lapsed
        clock.advance(GRANT_S * lapsed)
        store.reap()
        clock.advance(HOUR - 0.001)
        store.reap()
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [wait.ticket]
        clock.advance(2)
        store.reap()
        assert list(store.resources()) == []

    def test_a_heavy_wait_in_transit_reserves_nothing(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        held(store, "heavy", claims=claim(2, weight=2))
        admitted(store, claim(2), "light")

    def test_a_held_wait_that_is_parked_needs_no_session(self, store: Store) -> None:
        """E3: its message lies in the store now."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert not store.attach(wait.ticket, claim(), b"b")
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_a_parked_wait_that_came_again_needs_no_session(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        refused(store, claim(), "b2", Wait(Kind.PARK, ticket, session=S))
        assert reachable(store) == [ticket]
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_many_of_a_dead_session_hold_up_one_call_at_most(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        for n in range(300):
            held(store, f"dead-{n}")
        clock.advance(0.001)
        behind = parked(store, claim(), "c")
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"c"]
        assert granted(store) == [behind]
        assert reachable(store) == []
