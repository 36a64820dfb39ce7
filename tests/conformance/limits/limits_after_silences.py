"""Test that no silence lifts a limit: rows A4, A17 and A18 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.permit import Permit, Renewal
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import messages, reaped
from tests.conformance.limits.declared_limits import WINDOW, limit_of, to_next_window
from tests.conformance.suite import GRACE, LEASE, Suite, UsedClock

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store

ALL = all_keys_of("api")
JUST = 0.001
by_key = pytest.mark.parametrize(("key", "name"), [(None, "api"), ("x", ALL)], ids=["none", "all"])


def at_home(key: str | None) -> str:
    return "api" if key is None else f"api/{key}"


def attempts(store: Store, key: str | None, *, limit: int | None = 50) -> int:
    """Return how many of ten are admitted."""
    taken = [store.acquire(claim(limit, key=key), f"a{n}") for n in range(10)]
    return sum(isinstance(each, Permit) for each in taken)


class LimitsAfterSilences(Suite):
    @by_key
    @pytest.mark.parametrize("silence", [LEASE, 2 * LEASE, 20 * LEASE])
    def test_the_first_that_is_back_lifts_none(
        self, store: Store, clock: UsedClock, key: str | None, name: str, silence: float
    ) -> None:
        """Two deployments declare; the store is away for all, and the one with the higher limit is back first."""
        for limit, by in ((50, "old"), (5, "new")):
            store.declare({name: limit}, by)
        permits = [admitted(store, claim(5, key=key), f"t{n}") for n in range(5)]
        clock.pass_in_silence(silence)
        assert store.declare({name: 50}, "old")[name].limit == 5
        assert attempts(store, key) == 0
        assert attempts(store, key, limit=None) == 0
        clock.advance(GRACE - JUST)
        assert set(store.renew(permits).values()) == {Renewal.OK}
        store.declare({name: 5}, "new")
        for _ in range(6):
            clock.advance(LEASE / 3)
            store.renew(permits)
            assert store.declare({name: 50}, "old")[name] == DeclaredLimit(5, "new")
            store.declare({name: 5}, "new")
            assert limit_of(store, at_home(key)) == 5
        assert attempts(store, key) == 0

    @by_key
    def test_nor_one_that_only_acquires(
        self, store: Store, clock: UsedClock, key: str | None, name: str
    ) -> None:
        """Let the lower one be of the window before, which is over meanwhile, and let no worker be back yet."""
        store.declare({name: 3}, "new")
        to_next_window(clock, WINDOW / 2)
        store.declare({name: 50}, "old")
        clock.pass_in_silence(1.5 * LEASE)
        assert attempts(store, key, limit=None) == 3
        assert attempts(store, key) == 3
        assert store.snapshot(at_home(key)).declared == DeclaredLimit(3, "new")

    @by_key
    def test_a_lower_one_lapses_after_it(
        self, store: Store, clock: UsedClock, key: str | None, name: str
    ) -> None:
        """Let its deployment be gone: two windows later there is room for the line, with reapers alone."""
        store.declare({name: 1}, "gone")
        clock.pass_in_silence(2 * LEASE)
        store.declare({name: 2}, "here")
        permit = admitted(store, claim(2, key=key), "a")
        parked(store, claim(2, key=key), "b")
        for _ in range(2):
            clock.advance(WINDOW / 6)
            store.renew([permit])
            to_next_window(clock, -JUST)
            store.renew([permit])
            store.declare({name: 2}, "here")
            assert (limit_of(store, at_home(key)), messages(reaped(store))) == (1, [])
            clock.advance(JUST)
        assert messages(reaped(store)) == [b"b"]

    @by_key
    def test_nothing_is_declared_after_it(
        self, store: Store, clock: UsedClock, key: str | None, name: str
    ) -> None:
        """Let what was over in the silence lapse when all had time to come back: the line moves then."""
        store.declare({name: 1}, "gone")
        to_next_window(clock, WINDOW / 2)
        permit = admitted(store, claim(2, key=key), "a")
        store.declare({name: 2}, "here")
        parked(store, claim(None, key=key), "b")
        clock.pass_in_silence(2 * LEASE)
        assert reaped(store) == []
        clock.advance(GRACE - JUST)
        assert (limit_of(store, at_home(key)), messages(reaped(store))) == (1, [])
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert refused(store, claim(None, key=key), "c").limit == 1
        clock.advance(JUST)
        assert messages(reaped(store)) == [b"b"]
        assert limit_of(store, at_home(key)) == 2
