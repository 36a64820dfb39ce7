"""Test limits that an operator sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.claim import HIGHEST, Claim
from celery_semaphore.core.key import resource_name
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from tests.conformance.acquisition import (
    admitted,
    claim,
    limits_set,
    parked,
    refused,
    requeued,
    why,
)
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Operators(Suite):
    def test_an_operator_decides_over_it(self, store: Store) -> None:
        store.set_limit(1, "api")
        admitted(store, claim(5), "a")
        assert refused(store, claim(5), "b").limit == 1
        seen = store.snapshot("api")
        assert (seen.limit, seen.set_by_operator) == (1, True)

    def test_a_limit_for_all_keys_of_a_semaphore(self, store: Store) -> None:
        store.set_limit(1, "api")
        for key in "xy":
            admitted(store, claim(5, key=key), f"a{key}")
            assert refused(store, claim(5, key=key), f"b{key}").limit == 1
        for of in ("api2", "ap", "api/x"):
            admitted(store, claim(2, of=of), "c")
            admitted(store, claim(2, of=of), "d")

    def test_a_limit_for_one_key_goes_first(self, store: Store) -> None:
        store.set_limit(1, "api")
        store.set_limit(2, "api/x")
        assert refused_at(store, claim(5, key="x")) == 2
        assert refused_at(store, claim(5, key="y")) == 1
        store.set_limit(None, "api/x")
        assert store.snapshot("api/x").limit == 1

    def test_a_lower_limit_for_one_key_goes_first_too(self, store: Store) -> None:
        store.set_limit(5, "api")
        store.set_limit(1, "api/x")
        for key, reason in (("x", Reason.SATURATED), ("y", None)):
            admitted(store, claim(5, key=key), "a")
            answer = store.acquire(claim(5, key=key), "b")
            assert (answer.reason if isinstance(answer, Refusal) else None) is reason

    def test_a_limit_can_exceed_what_is_declared(self, store: Store) -> None:
        store.set_limit(3, "api")
        assert refused_at(store, claim(1)) == 3

    def test_a_limit_stays_until_cleared(self, store: Store, clock: Clock) -> None:
        store.set_limit(1, "api")
        admitted(store, claim(2), "a")
        store.release("a", claim(2))
        clock.advance(1000 * LEASE)
        store.reap()
        admitted(store, claim(2), "b")
        assert why(store, claim(2), "c") is Reason.SATURATED
        store.set_limit(None, "api")
        assert store.snapshot("api").set_by_operator is False
        admitted(store, claim(2), "d")

    def test_clearing_what_was_not_set(self, store: Store) -> None:
        assert not store.set_limit(None, "api/x")

    def test_a_lowered_limit_takes_nothing_away(self, store: Store) -> None:
        permits = [admitted(store, claim(3), holder) for holder in "abc"]
        store.set_limit(1, "api")
        assert {str(r) for r in store.renew(permits).values()} == {"ok"}
        store.release("a", claim(3))
        store.release("b", claim(3))
        assert why(store, claim(3), "d") is Reason.SATURATED
        store.release("c", claim(3))
        admitted(store, claim(3), "e")

    @pytest.mark.parametrize("by_operator", [True, False])
    def test_zero_pauses(self, store: Store, *, by_operator: bool) -> None:
        admitted(store, claim(1), "a")
        if by_operator:
            store.set_limit(0, "api")
        paused = claim(1 if by_operator else 0)
        refusal = refused(store, paused, "b", Wait(Kind.REQUEUE, longest=300.0))
        assert (refusal.reason, refusal.limit, refusal.retry_after) == (Reason.PAUSED, 0, LEASE)
        assert refused(store, paused, "c", Wait(Kind.REQUEUE, longest=5.0)).retry_after == 5.0
        store.release("a", claim(1))
        assert why(store, paused, "d") is Reason.PAUSED
        late = refused(store, paused, "a", Wait(Kind.REQUEUE, longest=300.0))
        assert (late.reason, late.limit, late.retry_after) == (Reason.RELEASED, 0, LEASE)

    def test_what_is_set_is_known_though_nobody_uses_it(self, store: Store) -> None:
        assert limits_set(store) == {}
        store.set_limit(0, "api")
        store.set_limit(2, resource_name("api", "x/y"))
        assert limits_set(store) == {"api": 0, resource_name("api", "x/y"): 2}
        store.set_limit(None, "api")
        assert limits_set(store) == {resource_name("api", "x/y"): 2}

    @pytest.mark.parametrize("limit", [-1, 2**31, 10**30])
    def test_an_error_for_what_is_no_limit(self, store: Store, limit: int) -> None:
        store.set_limit(2**31 - 1, "api")
        with pytest.raises(ValueError, match=f"not {limit}"):
            store.set_limit(limit, "api")
        assert limits_set(store) == {"api": 2**31 - 1}

    def test_the_highest_limit_and_weight(self, store: Store) -> None:
        permit = admitted(store, claim(HIGHEST, weight=HIGHEST), "a")
        seen = store.snapshot("api")
        assert (seen.limit, seen.occupied) == (HIGHEST, HIGHEST)
        assert [str(renewal) for renewal in store.renew([permit]).values()] == ["ok"]
        assert why(store, claim(HIGHEST), "b") is Reason.SATURATED

    @pytest.mark.parametrize(("limit", "weight"), [(2**31, 1), (2**70, 2**64), (1, 2**31)])
    def test_higher_ones_are_refused(self, store: Store, limit: int, weight: int) -> None:
        """Refuse them: no store could count such permits exactly, and so none could renew them."""
        with pytest.raises(SemaphoreError, match="2147483647") as caught:
            store.acquire(claim(limit, weight=weight), "a")
        assert not isinstance(caught.value, StoreUnavailable)
        admitted(store, claim(), "b")

    @pytest.mark.parametrize("name", ["a b", "api/x/y", "%61pi", "%FF"])
    def test_an_error_for_what_names_no_resource(self, store: Store, name: str) -> None:
        with pytest.raises(ValueError, match="no resource is named"):
            store.set_limit(1, name)

    @pytest.mark.parametrize("kinds", [1, 2, 3])
    def test_a_snapshot_shows_a_page_of_the_line(self, store: Store, kinds: int) -> None:
        admitted(store, claim(), "a")
        # The waits are in transit, in line, or set aside.
        for n in range(9):
            if n % kinds == 0:
                requeued(store, claim(), f"w{n}")
            elif n % kinds == 1:
                parked(store, claim(), f"w{n}")
            else:
                parked(store, claim(weight=3), f"w{n}")
        store.set_limit(1, "api")
        whole = store.snapshot("api").waiters
        assert [each.position for each in whole] == list(range(9))
        for skip in range(11):
            seen = store.snapshot("api", waiters=4, skip=skip)
            assert (seen.waiting, seen.waiters) == (9, whole[skip : skip + 4])
        assert store.snapshot("api", waiters=0, skip=3).waiters == ()

    def test_a_snapshot_of_nobody(self, store: Store) -> None:
        admitted(store, claim(), "a")
        requeued(store, claim(), "b")
        seen = store.snapshot("api", waiters=0)
        assert (seen.waiting, seen.waiters, len(seen.holders)) == (1, (), 1)


def refused_at(store: Store, claims: Sequence[Claim]) -> int:
    """Return how many holders were admitted."""
    for n in range(10):
        if isinstance(store.acquire(claims, f"{claims[0].resource}-{n}"), Refusal):
            return n
    raise AssertionError
