"""Test pauses of operators."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.decision import Decision, Pause
from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, refused, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

SHORT = LEASE / 5  # a sweep looks at each resource once in a lease, whatever ends there
BOTH = claim() + claim(2, of="disk")


def paused_until(store: Store, resource: str = "api") -> float | None:
    return store.snapshot(resource).paused_until


class Pauses(Suite):
    def test_a_pause_admits_none(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        assert store.pause("api")
        refusal = refused(store, claim(2), "b", Wait(Kind.REQUEUE, longest=300.0))
        assert (refusal.reason, refusal.limit, refusal.retry_after) == (Reason.PAUSED, 0, LEASE)
        store.release("a", claim(2))
        assert why(store, claim(2), "c") is Reason.PAUSED
        admitted(store, claim(of="api2"), "c")
        store.resume("api")
        admitted(store, claim(2), "c")

    @pytest.mark.parametrize("limit", [3, None])
    def test_a_pause_keeps_the_limit(self, store: Store, limit: int | None) -> None:
        """O1: it goes on with the limit that was set before, or with the declared one."""
        store.set_limit(limit, "api")
        admitted(store, claim(2), "a")
        store.pause("api")
        seen = store.snapshot("api")
        assert (seen.limit, seen.set_by_operator) == (limit or 2, limit is not None)
        assert seen.paused_until == inf
        store.resume("api")
        assert [seen.limit for seen in store.snapshots(["api"])] == [limit or 2]
        assert paused_until(store) is None
        for n in range((limit or 2) - 1):
            admitted(store, claim(2), f"b{n}")
        assert why(store, claim(2), "c") is Reason.SATURATED

    @pytest.mark.parametrize("limit", [2, None])
    def test_a_limit_that_is_set_or_cleared_ends_no_pause(
        self, store: Store, limit: int | None
    ) -> None:
        store.set_limit(5, "api")
        store.pause("api")
        assert not store.set_limit(limit, "api")
        assert why(store, claim(1), "a") is Reason.PAUSED
        assert store.snapshot("api").limit == (limit or 1)
        store.resume("api")
        for n in range(limit or 1):
            admitted(store, claim(1), f"a{n}")
        assert why(store, claim(1), "b") is Reason.SATURATED

    def test_a_second_pause_and_a_second_resume_change_nothing(self, store: Store) -> None:
        assert store.pause("api") is True
        assert store.pause("api") is False
        assert not store.resume("api")
        assert not store.resume("api")
        admitted(store, claim(), "a")
        assert store.pause("api") is True

    def test_a_pause_of_a_semaphore_pauses_all_its_keys(self, store: Store) -> None:
        store.set_limit(7, "api/x")
        store.pause("api")
        for key in "xy":
            assert why(store, claim(5, key=key), "a") is Reason.PAUSED
        for of in ("api2", "ap", "api/x"):
            admitted(store, claim(of=of), "a")
        store.resume("api")
        for n in range(7):
            admitted(store, claim(5, key="x"), f"a{n}")
        assert why(store, claim(5, key="x"), "b") is Reason.SATURATED

    def test_pauses_of_a_key_and_of_its_semaphore_are_two(self, store: Store) -> None:
        store.pause("api/x")
        admitted(store, claim(5, key="y"), "a")
        store.pause("api")
        store.resume("api")
        assert why(store, claim(5, key="x"), "a") is Reason.PAUSED
        admitted(store, claim(5, key="y"), "b")
        store.pause("api")
        store.resume("api/x")
        assert why(store, claim(5, key="x"), "a") is Reason.PAUSED

    def test_a_pause_ends_by_itself(self, store: Store, clock: Clock) -> None:
        assert store.pause("api", SHORT)
        assert paused_until(store) == clock.now + SHORT
        clock.advance(SHORT - 0.001)
        assert why(store, claim(), "a") is Reason.PAUSED
        clock.advance(0.001)
        assert paused_until(store) is None
        assert store.decisions() == {}
        admitted(store, claim(), "a")
        assert store.pause("api") is True

    @pytest.mark.parametrize(
        ("of_all", "of_key"), [(1.0, 2.0), (2.0, 1.0), (1.0, None), (None, 1.0)]
    )
    def test_of_two_pauses_the_later_end_counts(
        self, store: Store, clock: Clock, of_all: float | None, of_key: float | None
    ) -> None:
        store.pause("api", of_all)
        store.pause("api/x", of_key)
        last = max(inf if each is None else clock.now + each for each in (of_all, of_key))
        assert paused_until(store, "api/x") == last
        clock.advance(1.0)
        assert why(store, claim(key="x"), "a") is Reason.PAUSED
        clock.advance(1.0)
        assert (paused_until(store, "api/x") is None) == (last < inf)

    def test_a_pause_is_never_shortened_by_another(self, store: Store, clock: Clock) -> None:
        """O2: so two operators, or a task that backs off, do not end what the other began."""
        began = clock.now
        assert store.pause("api", 5.0)
        assert not store.pause("api", 4.0)
        clock.advance(1.0)
        assert store.decisions()["api"].pause == Pause(1.0, 4.0)
        assert store.pause("api", 9.0)
        assert paused_until(store) == began + 10.0
        assert store.decisions()["api"].pause == Pause(1.0, 9.0)
        assert store.pause("api")
        assert not store.pause("api", 9.0)
        assert store.decisions()["api"].pause == Pause(1.0, None)

    def test_a_release_in_a_pause_grants_nothing(self, store: Store) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.pause("api")
        assert released(store, "a", claim()) == []
        assert reaped(store) == []
        assert messages(store.take(store.resume("api"))) == [b"b"]

    @pytest.mark.parametrize("lasts", [SHORT, 2.5 * LEASE])
    def test_waits_are_granted_when_a_pause_ends(
        self, store: Store, clock: Clock, lasts: float
    ) -> None:
        """O3: only reapers call, which look at what is due."""
        admitted(store, claim(key="x"), "a")
        parked(store, claim(key="x"), "before")
        released(store, "z", claim(key="x"))
        store.pause("api", lasts)
        assert released(store, "a", claim(key="x")) == []
        left = lasts
        while left > LEASE:
            clock.advance(LEASE)
            assert reaped(store) == []
            left -= LEASE
        clock.advance(left - 0.001)
        assert reaped(store) == []
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"before"]

    def test_a_wait_that_came_in_a_pause_is_granted_when_it_ends(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        store.pause("api", SHORT)
        ticket = held(store, "b").ticket
        clock.advance(SHORT)
        store.reap()
        assert store.ask(S).granted == {ticket.nonce}

    @pytest.mark.parametrize("first", ["disk", "api"])
    def test_a_wait_that_moved_to_what_is_paused_is_granted_when_it_ends(
        self, store: Store, clock: Clock, first: str
    ) -> None:
        """H8, O3: also where the release has tried that line before."""
        both = sorted(BOTH, key=lambda each: each.resource != first)
        admitted(store, claim(), "a")
        parked(store, BOTH, "b")
        store.pause("disk", SHORT)
        assert released(store, "a", both) == []  # "disk" was not in use before
        assert store.snapshot("disk").waiting == 1
        clock.advance(SHORT)
        assert messages(reaped(store)) == [b"b"]

    def test_a_longer_pause_is_not_ended_with_the_first(self, store: Store, clock: Clock) -> None:
        store.pause("api", SHORT)
        parked(store, claim(), "b")
        store.pause("api", 2 * SHORT)
        clock.advance(SHORT)
        assert reaped(store) == []
        clock.advance(SHORT)
        assert messages(reaped(store)) == [b"b"]

    def test_a_pause_takes_nothing_away(self, store: Store) -> None:
        permits = [admitted(store, claim(2), holder) for holder in "ab"]
        store.pause("api")
        assert set(store.renew(permits).values()) == {Renewal.OK}
        self.forget(store)
        store.pause("api")
        assert set(store.renew(permits).values()) == {Renewal.RESTORED}

    def test_a_pause_is_kept_in_a_failover(self, store: Store) -> None:
        admitted(store, claim(of="disk"), "a")
        store.pause("api")
        lose_the_rest = self.remember(store)
        lose_the_rest()
        assert why(store, claim(), "b") is Reason.PAUSED

    def test_what_was_decided_is_known_though_nobody_uses_it(
        self, store: Store, clock: Clock
    ) -> None:
        store.set_limit(3, "api")
        clock.advance(1.0)
        store.pause("api")
        store.pause("api/x", 5.0)
        clock.advance(2.0)
        assert store.decisions() == {
            "api": Decision(3, 3.0, Pause(2.0, None)),
            "api/x": Decision(pause=Pause(2.0, 3.0)),
        }
        store.resume("api")
        assert store.decisions() == {
            "api": Decision(3, 3.0),
            "api/x": Decision(pause=Pause(2.0, 3.0)),
        }
        store.set_limit(None, "api")
        store.resume("api/x")
        assert store.decisions() == {}

    def test_totals_show_a_pause(self, store: Store, clock: Clock) -> None:
        store.set_limit(3, "api")
        admitted(store, claim(key="x"), "a")
        store.pause("api", 5.0)
        found = store.totals(["api/x", "api", "disk"])
        assert [(each.limit, each.paused) for each in found] == [
            (3, True),
            (3, True),
            (None, False),
        ]
        clock.advance(5.0)
        assert [each.paused for each in store.totals(["api/x", "api"])] == [False, False]

    @pytest.mark.parametrize("lasts", [0.0, -1.0, inf, nan])
    def test_an_error_for_what_is_no_length(self, store: Store, lasts: float) -> None:
        with pytest.raises(ValueError, match="positive number of seconds"):
            store.pause("api", lasts)
        assert store.decisions() == {}

    @pytest.mark.parametrize("name", ["a b", "api/x/y"])
    def test_an_error_for_what_names_nothing(self, store: Store, name: str) -> None:
        for call in (store.pause, store.resume):
            with pytest.raises(ValueError, match="no resource is named"):
                call(name)
