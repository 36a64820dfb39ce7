"""Test that workers declare limits between attempts, and which process declared what is in force: row A4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.names import process_name
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, parked, refused, two_windows_later
from tests.conformance.grants import messages, reaped
from tests.conformance.limits.declared_limits import WINDOW, declare, limit_of, to_next_window
from tests.conformance.suite import GRACE, LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


def in_force(store: Store, limit: int, by: str) -> DeclaredLimit:
    """Declare this limit, and return what is in force; a snapshot must agree."""
    found = store.declare({"api": limit}, by)["api"]
    seen = store.snapshot("api")
    assert seen.declared == found
    assert seen.limit == found.limit == limit_of(store)
    return found


class WorkerLimits(Suite):
    def test_an_idle_worker_declares(self, store: Store) -> None:
        assert store.declare({"api": 5}, "worker@b") == {"api": DeclaredLimit(5, "worker@b")}
        assert list(store.resources()) == []
        taken = [store.acquire(claim(50), f"stray:{n}") for n in range(31)]
        assert sum(isinstance(each, Permit) for each in taken) == 5

    def test_it_declares_several_at_a_time(self, store: Store) -> None:
        limits = {"disk": 3, "api": 5, "gpu": 1}
        said = store.declare(limits, "worker@b")
        assert said == {name: DeclaredLimit(limit, "worker@b") for name, limit in limits.items()}
        assert {name: limit_of(store, name) for name in limits} == limits
        assert store.declare({}, "worker@b") == {}

    def test_who_declared_the_smallest_is_known(self, store: Store, clock: Clock) -> None:
        assert in_force(store, 50, "a") == DeclaredLimit(50, "a")
        assert in_force(store, 5, "b") == DeclaredLimit(5, "b")
        assert in_force(store, 5, "c") == DeclaredLimit(5, "b")
        assert in_force(store, 50, "a") == DeclaredLimit(5, "b")
        to_next_window(clock)
        assert in_force(store, 50, "a") == DeclaredLimit(5, "b")
        assert in_force(store, 7, "d") == DeclaredLimit(5, "b")
        to_next_window(clock)
        assert in_force(store, 50, "a") == DeclaredLimit(7, "d")
        to_next_window(clock)
        assert in_force(store, 50, "a") == DeclaredLimit(50, "a")

    def test_who_declared_it_is_known_after_the_clock_stepped_back(
        self, store: Store, clock: Clock
    ) -> None:
        in_force(store, 5, "b")
        clock.advance(-20 * WINDOW)
        assert in_force(store, 50, "a") == DeclaredLimit(5, "b")

    def test_an_attempt_declares_in_the_name_of_its_process(self, store: Store) -> None:
        declare(store, 3)
        assert in_force(store, 50, "worker@b") == DeclaredLimit(3, process_name())

    def test_a_name_may_have_any_characters(self, store: Store) -> None:
        assert in_force(store, 5, "wörker 1%@b\n") == DeclaredLimit(5, "wörker 1%@b\n")

    def test_a_weight_above_it_is_told_who_declared_it(self, store: Store) -> None:
        store.declare({"api": 2}, "wörker@b")
        refusal = refused(store, claim(5, weight=3), "a")
        assert (refusal.reason, refusal.limit) == (Reason.UNSATISFIABLE, 2)
        assert refusal.declared_by == "wörker@b"
        store.set_limit(1, "api")
        refusal = refused(store, claim(5, weight=3), "a")
        assert (refusal.reason, refusal.limit) == (Reason.UNSATISFIABLE, 1)
        assert refusal.declared_by == "", "an operator set it"
        admitted(store, claim(5), "b")
        assert refused(store, claim(5), "c").declared_by == "", "another refusal needs no such look"

    def test_nothing_is_declared(self, store: Store) -> None:
        assert store.snapshot("api").declared is None

    def test_the_limit_of_an_operator_is_told_apart(self, store: Store) -> None:
        store.set_limit(7, "api")
        assert store.declare({"api": 5, "disk": 2}, "b") == {"disk": DeclaredLimit(2, "b")}
        seen = store.snapshot("api")
        assert (seen.limit, seen.set_by_operator) == (7, True)
        assert seen.declared == DeclaredLimit(5, "b")

    def test_what_idle_workers_declare_stays(self, store: Store, clock: Clock) -> None:
        """Let nothing be known after ten leases: the first one that declares then would lift the limit."""
        for _ in range(40):
            store.declare({"api": 5}, "b")
            clock.advance(LEASE / 3)
            store.reap()
            assert store.declare({"api": 50}, "a") == {"api": DeclaredLimit(5, "b")}

    def test_what_nobody_declares_is_forgotten(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(5), "a")
        store.declare({"api": 5}, "b")
        store.release("a", claim())
        for _ in range(15):
            clock.advance(LEASE)
            store.reap()
        assert list(store.resources()) == []

    def test_the_line_moves_when_a_worker_raises_it(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(1), "a")
        parked(store, claim(1), "b")
        two_windows_later(store, clock, [permit])
        reaped(store)
        clock.advance(0.001)
        assert in_force(store, 2, "w") == DeclaredLimit(2, "w")
        assert messages(reaped(store)) == [b"b"]

    def test_the_line_moves_when_a_lower_one_lapses_beside_a_worker(
        self, store: Store, clock: Clock
    ) -> None:
        """Let no attempt and no look see to that: the last look is before."""
        permit = admitted(store, claim(1), "a")
        parked(store, claim(1), "b")
        to_next_window(clock, 1.0)
        store.renew([permit])
        store.set_limit(None, "api")  # looks at once
        clock.advance(WINDOW / 2 - 1.0)
        store.renew([permit])
        assert in_force(store, 2, "w").limit == 1
        clock.advance(WINDOW / 2 - 0.001)
        assert messages(reaped(store)) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"b"]

    def test_workers_declare_in_the_grace(self, store: Store, clock: Clock) -> None:
        """Let a store forget: the worker with the lower limit declares before any task is admitted."""
        store.declare({"api": 5}, "b")
        self.forget(store)
        assert in_force(store, 50, "a") == DeclaredLimit(50, "a")
        assert in_force(store, 5, "b") == DeclaredLimit(5, "b")
        clock.advance(GRACE)
        taken = [store.acquire(claim(50), f"stray:{n}") for n in range(9)]
        assert sum(isinstance(each, Permit) for each in taken) == 5
