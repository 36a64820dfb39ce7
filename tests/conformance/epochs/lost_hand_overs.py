"""Test a store that went back to before a hand-on: it remembers a dead holder and forgot the living one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, parked, why
from tests.conformance.epochs.handed_over import HandedOver, names
from tests.conformance.grants import released
from tests.conformance.suite import GRACE, LEASE, UsedClock

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class LostHandOvers(HandedOver):
    def test_a_dead_holder_does_not_fill_the_place_of_the_living(
        self, store: Store, clock: Clock
    ) -> None:
        _, living = self.handed_over(store)
        clock.advance(1)
        assert store.renew([living]) == {"b": Renewal.RESTORED}
        assert names(store) == ["a", "b"]  # above the limit, until the lease of "a" has ended
        assert why(store, claim(), "c") is Reason.RECOVERING
        clock.advance(GRACE)
        assert store.renew([living]) == {"b": Renewal.OK}
        assert why(store, claim(), "c") is Reason.SATURATED
        store.release("b", claim())
        assert why(store, claim(), "c") is Reason.SATURATED  # "a" may have been alive
        clock.advance(LEASE - GRACE)
        admitted(store, claim(), "c")
        assert names(store) == ["c"]

    def test_the_dead_are_dropped_when_their_leases_end(self, store: Store, clock: Clock) -> None:
        _, living = self.handed_over(store)
        store.renew([living])
        clock.advance(GRACE)
        store.renew([living])
        clock.advance(LEASE - GRACE)
        store.reap()
        assert names(store) == ["b"]

    def test_a_dead_holder_does_not_come_back_beside_the_living(
        self, store: Store, clock: Clock
    ) -> None:
        dead, living = self.handed_over(store)
        assert store.renew([living]) == {"b": Renewal.RESTORED}
        assert store.renew([living]) == {"b": Renewal.OK}
        assert store.renew([dead]) == {"a": Renewal.LOST}
        assert names(store) == ["b"]
        clock.advance(GRACE)
        assert store.renew([dead, living]) == {"a": Renewal.LOST, "b": Renewal.OK}

    def test_nor_when_the_grace_is_over(self, store: Store, clock: Clock) -> None:
        dead, living = self.handed_over(store)
        store.renew([living])
        clock.advance(GRACE)
        assert store.renew([dead]) == {"a": Renewal.LOST}

    def test_nor_after_a_silence_that_spared_it(self, store: Store, clock: UsedClock) -> None:
        """Let it last until what was restored a lease ago is as good as all others."""
        dead, living = self.handed_over(store)
        store.renew([living])
        clock.advance(GRACE)
        store.renew([living])
        clock.pass_in_silence(1.5 * LEASE)
        assert store.renew([living, dead]) == {"b": Renewal.OK, "a": Renewal.LOST}

    def test_nor_by_acquiring_again(self, store: Store) -> None:
        _, living = self.handed_over(store)
        store.renew([living])
        assert why(store, claim(), "a") is Reason.RELEASED
        assert names(store) == ["b"]

    @pytest.mark.parametrize("renewed", [False, True])
    def test_what_was_restored_is_not_remembered(self, store: Store, *, renewed: bool) -> None:
        """Exceed the limit only beside permits that the store remembers: all of those were admitted once."""
        for holder in ("a", "b", "c"):
            admitted(store, claim(3), holder)
        lose_the_rest = self.remember(store)
        living = []
        for dead, holder in (("a", "d"), ("b", "e")):
            store.release(dead, claim(3))
            living.append(admitted(store, claim(3), holder))
        lose_the_rest()
        store.set_limit(1, "api")
        assert store.renew(living[:1]) == {"d": Renewal.RESTORED}
        if renewed:
            assert store.renew(living[:1]) == {"d": Renewal.OK}
        for dead in ("a", "b"):
            store.release(dead, claim(3))
        assert store.renew(living[1:]) == {"e": Renewal.LOST}
        assert names(store) == ["c", "d"]

    def test_one_of_another_weight_is_not_remembered(self, store: Store) -> None:
        permit = admitted(store, claim(2), "a")
        self.remember(store)()
        store.set_limit(1, "api")
        heavier = replace(permit, claims=tuple(claim(2, weight=2)))
        assert store.renew([heavier]) == {"a": Renewal.LOST}

    def test_a_remembered_holder_that_acquires_again_has_its_permit(
        self, store: Store, clock: Clock
    ) -> None:
        """Lose the answer in the crash."""
        permit = admitted(store, claim(), "a")
        self.remember(store)()
        assert admitted(store, claim(), "a").token == permit.token
        clock.advance(1)
        assert store.renew([permit]) == {"a": Renewal.OK}

    @pytest.mark.parametrize("first", ["living", "restored"])
    def test_a_limit_lowered_before_takes_nothing_from_the_living(
        self, store: Store, first: str
    ) -> None:
        living, dead, restored = self.handed_over_before_a_lower_limit(store)
        order = [*living, restored] if first == "living" else [restored, *living]
        assert store.renew(order) == dict.fromkeys("abc", Renewal.OK) | {"e": Renewal.RESTORED}
        assert store.renew([dead]) == {"d": Renewal.LOST}
        self.remember(store)()  # the next epoch remembers the restored permit like all others
        assert store.renew(order) == dict.fromkeys("abce", Renewal.OK)

    def test_nor_does_an_operators_limit_set_long_before(self, store: Store, clock: Clock) -> None:
        """Lower it below what runs, for hours: at a restart that loses nothing all of it goes on."""
        permits = [admitted(store, claim(3), holder) for holder in "abc"]
        store.set_limit(1, "api")
        for _ in range(12):
            clock.advance(LEASE / 3)
            assert store.renew(permits) == dict.fromkeys("abc", Renewal.OK)
        for _ in range(2):
            self.remember(store)()
            assert store.renew(permits) == dict.fromkeys("abc", Renewal.OK)
        assert why(store, claim(3), "x") is Reason.RECOVERING
        clock.advance(GRACE)
        assert store.renew(permits) == dict.fromkeys("abc", Renewal.OK)
        assert why(store, claim(3), "x") is Reason.SATURATED

    def test_a_limit_lowered_before_takes_nothing_from_what_a_grant_became(
        self, store: Store
    ) -> None:
        living = [admitted(store, claim(3), holder) for holder in "ab"]
        admitted(store, claim(3), "x")
        ticket = parked(store, claim(3), "c")
        store.sent(released(store, "x", claim(3)))
        assert why(store, claim(1), "y") is Reason.SATURATED
        lose_the_rest = self.remember(store)
        taken_up = admitted(store, claim(3), "c2", came_back(ticket, Kind.PARK))
        lose_the_rest()
        said = store.renew([taken_up, *living])
        assert said == {"c2": Renewal.RESTORED, "a": Renewal.OK, "b": Renewal.OK}

    def test_a_limit_lowered_after_takes_nothing_from_the_living(
        self, store: Store, clock: Clock
    ) -> None:
        permits = [admitted(store, claim(3), "a")]
        lose_the_rest = self.remember(store)
        permits.append(admitted(store, claim(3), "b"))
        lose_the_rest()
        store.renew(permits)
        clock.advance(GRACE)
        permits.append(admitted(store, claim(3), "c"))
        store.set_limit(1, "api")
        assert store.renew(permits) == dict.fromkeys("abc", Renewal.OK)

    def test_no_more_than_fits_is_restored_beside_the_living(self, store: Store) -> None:
        living = admitted(store, claim(3), "a")
        lose_the_rest = self.remember(store)
        others = [admitted(store, claim(3), holder) for holder in "bc"]
        store.release("c", claim(3))
        others.append(admitted(store, claim(3), "d"))
        lose_the_rest()
        assert store.renew([living]) == {"a": Renewal.OK}
        words = [Renewal.RESTORED, Renewal.RESTORED, Renewal.LOST]
        assert list(store.renew(others).values()) == words

    def test_weights(self, store: Store) -> None:
        living = admitted(store, claim(4), "a")
        heavy = claim(4, weight=3)
        dead = admitted(store, heavy, "d")
        lose_the_rest = self.remember(store)
        store.release("d", heavy)
        light = admitted(store, claim(4), "b")
        double = admitted(store, claim(4, weight=2), "c")
        lose_the_rest()
        assert list(store.renew([double, light]).values()) == [Renewal.RESTORED] * 2
        assert store.snapshot("api").occupied == 7
        assert store.renew([dead, living]) == {"d": Renewal.LOST, "a": Renewal.OK}
        assert store.snapshot("api").occupied == 4
