"""Test a store that was not called for longer than two renewals take: row A17 of docs/maintain/architecture.md."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, parked, why
from tests.conformance.grants import messages, reaped
from tests.conformance.sessions.session_calls import HOUR, S, held
from tests.conformance.suite import GRACE, LEASE, Suite, UsedClock
from tests.conformance.totals.totals import counted
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.permit import Permit
    from celery_semaphore.core.store import Store

SILENCE = 1.5 * LEASE
JUST = 0.001
ELSEWHERE = claim(9, of="disk")


def used(store: Store, holder: str) -> None:
    """Acquire and release: from the second time on PostgreSQL does both in its short way."""
    admitted(store, ELSEWHERE, holder)
    store.release(holder, ELSEWHERE)


# Calls at another resource, by a process that has a permit there.
CALLS: dict[str, Callable[[Store, Permit], object]] = {
    "acquire": lambda store, _: store.acquire(ELSEWHERE, f"c{store.snapshot('disk').at}"),
    "acquire and release": lambda store, _: used(store, uuid4().hex),
    "renew": lambda store, permit: store.renew([permit]),
    "release": lambda store, _: store.release("d", ELSEWHERE),
    "ask": lambda store, _: store.ask(S),
    "sleep": lambda store, _: store.sleep(S),
    "reap": lambda store, _: store.reap(),
    "look": lambda store, _: store.snapshot("disk"),
    "set a limit": lambda store, _: store.set_limit(5, "disk"),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


class Silences(Suite):
    def test_no_permit_ends_at_once_if_a_durable_call_comes_first(
        self, store: Store, clock: UsedClock
    ) -> None:
        permit = admitted(store, claim(), "a")
        clock.pass_in_silence(SILENCE)
        store.promote([], "api")
        clock.pass_in_silence(LEASE / 3)
        assert why(store, claim(), "x") is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}

    @each_call
    def test_no_permit_ends_at_once(
        self, store: Store, clock: UsedClock, call: Callable[[Store, Permit], object]
    ) -> None:
        """Stop the server: whatever is called first once it goes on, holders can renew."""
        permit, elsewhere = admitted(store, claim(), "a"), admitted(store, ELSEWHERE, "b")
        clock.pass_in_silence(SILENCE)
        call(store, elsewhere)
        clock.pass_in_silence(LEASE / 3)
        assert why(store, claim(), "x") is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}
        clock.pass_in_silence(LEASE - JUST)
        assert why(store, claim(), "y") is Reason.SATURATED

    def test_nor_if_it_is_asked_for_first(self, store: Store, clock: UsedClock) -> None:
        permits = [admitted(store, claim(2), holder) for holder in "ab"]
        clock.pass_in_silence(SILENCE)
        assert why(store, claim(2), "c") is Reason.SATURATED
        assert set(store.renew(permits).values()) == {Renewal.OK}
        assert why(store, claim(2), "d") is Reason.SATURATED

    def test_nor_if_it_is_renewed_first(self, store: Store, clock: UsedClock) -> None:
        permit = admitted(store, claim(), "a")
        clock.pass_in_silence(SILENCE)
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert why(store, claim(), "b") is Reason.SATURATED

    def test_the_same_holder_has_it_still(self, store: Store, clock: UsedClock) -> None:
        permit = admitted(store, claim(), "a")
        clock.pass_in_silence(SILENCE)
        assert admitted(store, claim(), "a").token == permit.token

    def test_it_is_shown_and_counted(self, store: Store, clock: UsedClock) -> None:
        admitted(store, claim(), "a")
        clock.pass_in_silence(SILENCE)
        assert store.snapshot("api").occupied == 1
        assert counted(store).held == 1
        parked(store, claim(), "b")
        assert counted(store).held == 1

    def test_it_can_be_released(self, store: Store, clock: UsedClock) -> None:
        admitted(store, claim(), "a")
        clock.pass_in_silence(SILENCE)
        store.release("a", claim())
        assert store.snapshot("api").mean_held == SILENCE
        admitted(store, claim(), "b")

    def test_what_is_free_is_free(self, store: Store, clock: UsedClock) -> None:
        """Admit at once what there is room for: unlike a restart, a silence loses no permit."""
        admitted(store, claim(2), "a")
        clock.pass_in_silence(SILENCE)
        admitted(store, claim(2), "b")
        assert why(store, claim(2), "c") is Reason.SATURATED

    def test_the_permit_of_a_dead_holder_ends_after_it(
        self, store: Store, clock: UsedClock
    ) -> None:
        permits = [admitted(store, claim(2), holder) for holder in "ab"]
        clock.pass_in_silence(SILENCE)
        parked(store, claim(2), "c", name="c")
        assert store.renew(permits[:1]) == {"a": Renewal.OK}
        clock.advance(GRACE - JUST)
        assert reaped(store) == []
        clock.advance(JUST)
        assert messages(reaped(store)) == [b"c"]
        assert store.renew(permits) == {"a": Renewal.OK, "b": Renewal.LOST}

    def test_one_that_ends_soon_after_it_waits_too(self, store: Store, clock: UsedClock) -> None:
        """Let the server go on shortly before the lease ends: there is no time to renew."""
        permit = admitted(store, claim(), "a")
        clock.pass_in_silence(0.9 * LEASE)
        store.snapshot("disk")
        clock.pass_in_silence(0.2 * LEASE)
        assert why(store, claim(), "b") is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_two_renewals_are_no_silence(self, store: Store, clock: UsedClock) -> None:
        admitted(store, claim(), "a")
        clock.pass_in_silence(LEASE / 3)
        store.snapshot("disk")
        clock.pass_in_silence(GRACE)
        admitted(store, claim(), "b")

    def test_a_moment_more_is_one(self, store: Store, clock: UsedClock) -> None:
        permit = admitted(store, claim(), "a")
        clock.pass_in_silence(LEASE / 3)
        store.snapshot("disk")
        clock.pass_in_silence(GRACE + JUST)
        assert why(store, claim(), "b") is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}

    @each_call
    def test_a_quiet_semaphore_of_a_used_store_has_none(
        self, store: Store, clock: UsedClock, call: Callable[[Store, Permit], object]
    ) -> None:
        """Let the permit of a dead holder end as always, whatever the others call."""
        admitted(store, claim(), "a")
        elsewhere = admitted(store, ELSEWHERE, "b")
        for _ in range(3):
            call(store, elsewhere)
            clock.pass_in_silence(LEASE / 3)
        admitted(store, claim(), "c")

    def test_one_that_was_over_before_it_ends(self, store: Store, clock: UsedClock) -> None:
        admitted(store, claim(), "a")
        clock.advance(LEASE)
        store.snapshot("disk")
        clock.pass_in_silence(SILENCE)
        admitted(store, claim(), "b")

    def test_a_store_that_was_not_used_for_a_night(self, store: Store, clock: UsedClock) -> None:
        admitted(store, claim(), "a")
        store.release("a", claim())
        clock.pass_in_silence(12 * HOUR)
        admitted(store, claim(), "b")

    def test_rare_calls_keep_no_permit_for_ever(self, store: Store, clock: UsedClock) -> None:
        """Call seldom: each call ends a silence, but only the first one saw the permit alive."""
        admitted(store, claim(), "a")
        clock.pass_in_silence(2 * LEASE)
        assert why(store, claim(), "b") is Reason.SATURATED
        clock.pass_in_silence(2 * LEASE)
        admitted(store, claim(), "c")

    def test_a_sweep_finds_what_is_due_beside_what_is_spared(
        self, store: Store, clock: UsedClock
    ) -> None:
        """Look at a hundred resources in a sweep: it must not be the same ones each time."""
        for n in range(101):
            admitted(store, claim(of=f"r{n}"), f"h{n}")
        clock.pass_in_silence(SILENCE)
        store.reap()
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.release("a", claim())  # by a worker that dies before it sends
        sent = [each for _ in range(2) for each in messages(reaped(store))]
        assert sent == [b"b"]

    def test_a_lease_that_is_longer_now(self, store: Store, clock: UsedClock) -> None:
        """Let the server hang before the holder has renewed by the new lease."""
        permit = admitted(store, claim(), "a")
        store.set_lease(10 * LEASE)
        clock.pass_in_silence(SILENCE)
        assert why(store, claim(), "b") is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_a_second_one_counts_anew(self, store: Store, clock: UsedClock) -> None:
        permit = admitted(store, claim(), "a")
        for _ in range(3):
            clock.pass_in_silence(SILENCE)
            assert why(store, claim(), "b") is Reason.SATURATED
            assert store.renew([permit]) == {"a": Renewal.OK}

    def test_a_grant_ends_in_it(self, store: Store, clock: UsedClock) -> None:
        """Name the wait again: no task runs by a grant."""
        store.ask(S)
        admitted(store, claim(), "a")
        held(store, "b")
        store.release("a", claim())
        assert len(granted(store)) == 1
        clock.pass_in_silence(SILENCE)
        assert counted(store).granted == 0
        admitted(store, claim(), "c")

    def test_it_is_over_if_the_clock_steps_back(self, store: Store, clock: UsedClock) -> None:
        """Forget the silence: its times lie ahead."""
        admitted(store, claim(2), "a")
        clock.pass_in_silence(SILENCE)
        assert store.snapshot("api").occupied == 1
        clock.pass_in_silence(-HOUR)
        admitted(store, claim(2), "b")
        assert store.snapshot("api").occupied == 2
        store.reap()
        assert why(store, claim(2), "c") is Reason.SATURATED
        assert counted(store).held == 2
