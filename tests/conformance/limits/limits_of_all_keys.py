"""Test limits that workers declare for all keys of a semaphore: row A18 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.names import process_name
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import messages, reaped
from tests.conformance.limits.declared_limits import WINDOW, limit_of, to_next_window
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

ALL = all_keys_of("api")


def admitted_of(store: Store, attempts: int, key: str) -> int:
    taken = [store.acquire(claim(50, key=key), f"{key}:{n}") for n in range(attempts)]
    return sum(isinstance(each, Permit) for each in taken)


def granted_now(store: Store) -> set[str]:
    return {each.decode() for each in messages(reaped(store))} | store.ask(S).granted


def attempt(store: Store, limit: int, *keys: str) -> None:
    for key in keys:
        store.acquire(claim(limit, key=key), "declares")
        store.release("declares", claim(key=key))


class LimitsOfAllKeys(Suite):
    def test_it_bounds_each_key_at_once(self, store: Store) -> None:
        """One that is in use, one that is not, and not the resource without a key."""
        attempt(store, 50, "x")
        admitted(store, claim(50), "without a key")
        assert store.declare({ALL: 5}, "w") == {ALL: DeclaredLimit(5, "w")}
        for key in "xy":
            assert limit_of(store, f"api/{key}") == 5
            assert store.snapshot(f"api/{key}").declared == DeclaredLimit(5, "w")
            assert admitted_of(store, 9, key) == 5
            assert refused(store, claim(50, key=key), "z").limit == 5
        assert limit_of(store) == 50
        store.declare({"api": 3}, "w")
        assert limit_of(store, "api/x") == 5

    def test_a_lower_one_of_a_key_goes_before_it(self, store: Store) -> None:
        store.declare({ALL: 5}, "w")
        attempt(store, 3, "x")
        attempt(store, 7, "y")
        assert store.snapshot("api/x").declared == DeclaredLimit(3, process_name())
        assert store.snapshot("api/y").declared == DeclaredLimit(5, "w")

    def test_it_is_the_smallest_of_two_windows(self, store: Store, clock: Clock) -> None:
        for limit, by, in_force in (
            (50, "a", (50, "a")),
            (5, "b", (5, "b")),
            (50, "a", (5, "b")),
        ):
            assert store.declare({ALL: limit}, by) == {ALL: DeclaredLimit(*in_force)}
        for limit, in_force in ((50, (5, "b")), (40, (40, "c"))):
            to_next_window(clock)
            store.declare({ALL: limit}, "c")
            attempt(store, 60, "x")
            assert store.snapshot("api/x").declared == DeclaredLimit(*in_force)
            assert limit_of(store, "api/x") == in_force[0]

    def test_it_is_over_after_two_windows(self, store: Store, clock: Clock) -> None:
        """Else what no worker declares any more would bound for ever: callables declare for keys only."""
        store.declare({ALL: 5}, "w")
        attempt(store, 50, "x")
        to_next_window(clock)
        attempt(store, 50, "x")
        assert limit_of(store, "api/x") == 5
        to_next_window(clock, -0.001)
        assert limit_of(store, "api/x") == 5
        clock.advance(0.001)
        assert limit_of(store, "api/x") == 50

    def test_the_line_moves_when_it_is_over(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(2, key="x"), "a")
        store.declare({ALL: 1}, "w")
        parked(store, claim(2, key="x"), "b")
        for _ in range(2):
            clock.advance(WINDOW / 2)
            store.renew([permit])
            assert reaped(store) == []
        to_next_window(clock, -0.001)
        assert reaped(store) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"b"]

    def test_the_line_moves_when_a_lower_one_lapses_there(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(2, key="x"), "a")
        store.declare({ALL: 1}, "w")
        parked(store, claim(2, key="x"), "b")
        to_next_window(clock)
        store.renew([permit])
        store.declare({ALL: 2}, "w")
        assert reaped(store) == []
        clock.advance(WINDOW - 0.001)
        store.renew([permit])
        assert reaped(store) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"b"]

    @pytest.mark.parametrize("over", [False, True])
    def test_a_late_refusal_sees_when_it_rises(
        self, store: Store, clock: Clock, *, over: bool
    ) -> None:
        """Let no look and no declaration come between the refusal and that moment."""
        store.declare({ALL: 1}, "w")
        to_next_window(clock)
        if not over:
            store.declare({ALL: 2}, "w")
        clock.advance(WINDOW - 1)
        admitted(store, claim(2, key="x"), "a")
        parked(store, claim(2, key="x"), "b")
        clock.advance(0.999)
        assert messages(reaped(store)) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"b"]

    @pytest.mark.parametrize("kind", [Kind.PARK, Kind.REQUEUE])
    def test_a_lower_one_of_a_key_is_over_after_two_windows(
        self, store: Store, clock: Clock, kind: Kind
    ) -> None:
        """Let no wait be too heavy for ever: workers declare for all keys only."""
        store.ask(S)
        five = claim(5, key="x", weight=3)
        permit = admitted(store, five, "a")
        if kind is Kind.PARK:
            parked(store, five, "b")
        else:
            held(store, "b", S, five)
        attempt(store, 1, "x")
        store.release("a", permit.claims)
        for _ in range(2):
            store.declare({ALL: 5}, "w")
            clock.advance(WINDOW / 6)
            store.ask(S)
            to_next_window(clock, -0.001)
            assert limit_of(store, "api/x") == 1
            assert granted_now(store) == set()
            clock.advance(0.001)
        store.declare({ALL: 5}, "w")
        assert limit_of(store, "api/x") == 5
        assert store.snapshot("api/x").declared == DeclaredLimit(5, "w")
        assert granted_now(store) == {"b"}

    def test_the_last_one_of_a_key_is_in_force_where_none_is_for_all(
        self, store: Store, clock: Clock
    ) -> None:
        """Also one that was over beside it."""
        attempt(store, 1, "x")
        for _ in range(3):
            store.declare({ALL: 5}, "w")
            to_next_window(clock)
        assert admitted_of(store, 9, "y") == 5
        assert [limit_of(store, f"api/{key}") for key in "xy"] == [5, 5]
        to_next_window(clock)
        assert [limit_of(store, f"api/{key}") for key in "xy"] == [1, 50]

    def test_one_without_a_limit_obeys_it(self, store: Store) -> None:
        """At a key that no attempt has used."""
        none = claim(None, key="x")
        assert refused(store, none, "a").reason is Reason.PAUSED
        store.declare({ALL: 1}, "w")
        admitted(store, none, "b")
        assert refused(store, none, "c").reason is Reason.SATURATED

    def test_the_limit_of_an_operator_goes_before_it(self, store: Store) -> None:
        store.set_limit(7, "api")
        assert store.declare({ALL: 5}, "w") == {}
        assert admitted_of(store, 9, "x") == 7

    def test_a_weight_above_it_is_told_who_declared_it_for_all(self, store: Store) -> None:
        store.declare({ALL: 2}, "w")
        refusal = refused(store, claim(5, key="x", weight=3), "a")
        assert (refusal.reason, refusal.limit) == (Reason.UNSATISFIABLE, 2)
        assert refusal.declared_by == "w"

    def test_it_is_no_resource(self, store: Store, clock: Clock) -> None:
        store.declare({ALL: 5}, "w")
        assert list(store.resources()) == []
        clock.advance(WINDOW)
        store.reap()
        assert list(store.resources()) == []
