"""Test that kept room ends, and that the next one is granted it then: row H12, chapter 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, why
from tests.conformance.epochs.clock_steps import STEP
from tests.conformance.grants import messages, reaped, released
from tests.conformance.hand_on.kept_room import (
    API,
    DISK,
    PAIR,
    THIRD,
    busy,
    held_by_session,
    keeping,
    kept,
)
from tests.conformance.sessions.session_calls import S, holding
from tests.conformance.suite import GRACE, LEASE, Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

LASTS = 3.0  # seconds: one, and twice the turn of ``keeping``
FOUR = claim(4, of="third", weight=4)


def keeping_two(store: Store, clock: Clock, third: list[Claim] = THIRD) -> None:
    """Let a wait keep room at ``api`` and ``third``, and another one wait for that of ``api``."""
    keeping(store, clock, [*PAIR, *third])
    clock.advance(0.001)
    parked(store, API, "c")
    assert kept(store, "api", "third") == [1, third[0].weight]


class KeptRoomEnds(Suite):
    @pytest.mark.parametrize("at", [API, PAIR])
    def test_its_time_ends(self, store: Store, clock: Clock, at: list[Claim]) -> None:
        """Let the next reap hand the room on; its resource is due, after a hand-on of several calls or one."""
        busy(store, clock)
        parked(store, PAIR, "pair")
        clock.advance(0.001)
        parked(store, API, "c")
        assert not released(store, "a", at)
        clock.advance(LASTS - 0.001)
        assert not reaped(store)
        assert kept(store) == [1, 0]
        clock.advance(0.001)
        assert kept(store) == [0, 0]
        assert messages(reaped(store)) == [b"c"]

    @pytest.mark.parametrize("reap", [False, True])
    def test_its_time_ends_for_one_that_came_later(
        self, store: Store, clock: Clock, *, reap: bool
    ) -> None:
        """Look at the end at a resource that was idle when its room was kept."""
        keeping(store, clock)
        if reap:
            assert not store.reap()
        clock.advance(1)
        parked(store, API, "c")
        clock.advance(LASTS - 1.001)
        assert not reaped(store)
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"c"]

    @pytest.mark.parametrize(("first", "second"), [(API, THIRD), (PAIR, [*THIRD, *API])])
    def test_its_time_ends_for_one_that_was_refused_by_it_elsewhere(
        self, store: Store, clock: Clock, first: list[Claim], second: list[Claim]
    ) -> None:
        """H8: a wait that moves to the resource where the room is kept is tried again when it ends.

        Nothing was due there: no wait stood there, and each hand-on was one call, or several.
        """
        busy(store, clock)
        parked(store, PAIR, "pair")
        assert not released(store, "a", first)
        clock.advance(0.001)
        admitted(store, THIRD, "t")
        parked(store, [*THIRD, *API], "c")
        assert not released(store, "t", second)
        assert store.snapshot("api").waiting == 1
        clock.advance(LASTS - 0.002)
        assert not reaped(store)
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"c"]

    def test_after_its_time_a_release_hands_on(self, store: Store, clock: Clock) -> None:
        busy(store, clock)
        parked(store, PAIR, "pair")
        clock.advance(0.001)
        parked(store, API, "c")
        store.release("a", API)
        admitted(store, API, "urgent", Wait(Kind.REQUEUE, priority=1))
        clock.advance(LASTS)
        assert messages(released(store, "urgent", API)) == [b"c"]

    def test_after_its_time_a_new_task_is_admitted(self, store: Store, clock: Clock) -> None:
        keeping(store, clock)
        clock.advance(LASTS - 0.001)
        assert why(store, API, "b") is Reason.SATURATED
        clock.advance(0.001)
        admitted(store, API, "c")
        store.release("c", API)
        admitted(store, API, "d")

    def test_it_lasts_no_longer_than_a_lease_may(self, store: Store, clock: Clock) -> None:
        """End a time that no clock would allow after three leases, however long permits are held."""
        permits = [admitted(store, API, "a"), admitted(store, DISK, "x")]
        for _ in range(20):
            clock.advance(LEASE / 4)
            store.renew(permits)
        store.release("x", DISK)
        parked(store, PAIR, "pair")  # in the line of api: disk has room
        permits = [admitted(store, DISK, "y")]
        store.release("a", API)
        for _ in range(12):
            assert kept(store) == [1, 0]
            clock.advance(LEASE / 4)
            store.renew(permits)
        assert kept(store) == [0, 0]
        admitted(store, API, "b")

    def test_it_waits_again_for_what_it_kept(self, store: Store, clock: Clock) -> None:
        """Try the wait again, after its time: it keeps the room of the other claim now."""
        busy(store, clock)
        ticket = parked(store, PAIR, "pair")
        store.release("a", API)
        clock.advance(LASTS)
        admitted(store, API, "b")
        store.release("x", DISK)
        assert kept(store) == [0, 1]
        store.release("b", API)
        assert granted(store) == [ticket]

    def test_its_grant_ends_it(self, store: Store, clock: Clock) -> None:
        ticket = keeping(store, clock)
        clock.advance(0.001)
        parked(store, API, "c")
        assert messages(released(store, "x", DISK)) == [b"pair"]
        assert kept(store) == [0, 0]
        assert messages(released(store, ticket, PAIR)) == [b"c"]

    @pytest.mark.parametrize("refuses", [False, True])
    def test_its_own_acquire_ends_it(self, store: Store, clock: Clock, *, refuses: bool) -> None:
        """Hand the room on with the next reap: the wait may be over, or be refused for a new reason."""
        ticket = keeping(store, clock, way=held_by_session)
        clock.advance(0.001)
        parked(store, API, "c")
        if refuses:
            again = refused(store, PAIR, "pair 2", holding(S, ticket))
            assert (again.reason, again.claim.semaphore) == (Reason.SATURATED, "disk")
            assert (again.occupied, again.kept) == (1, 0)
        else:
            own_zero = [*claim(0), *DISK]
            assert why(store, own_zero, "pair 2", holding(S, ticket)) is Reason.PAUSED
        assert kept(store) == [0, 0]
        assert messages(reaped(store)) == [b"c"]

    def test_its_own_acquire_ends_it_by_the_name_of_its_holder(
        self, store: Store, clock: Clock
    ) -> None:
        """A13: the answer of its first acquire was lost."""
        keeping(store, clock, way=held_by_session)
        assert why(store, PAIR, "pair") is Reason.SATURATED
        assert kept(store) == [0, 0]
        admitted(store, API, "b")

    def test_other_claims_do_not_end_it(self, store: Store, clock: Clock) -> None:
        """A19: such an acquire changes nothing."""
        ticket = keeping(store, clock)
        with pytest.raises(Exception, match="other claims"):
            store.acquire(API, "pair 2", came_back(ticket, Kind.PARK))
        assert kept(store) == [1, 0]

    @pytest.mark.parametrize("by", ["ticket", "holder"])
    def test_the_release_of_its_wait_ends_it(self, store: Store, clock: Clock, by: str) -> None:
        """R6: hand the room on at once."""
        ticket = keeping(store, clock, way=held_by_session)
        clock.advance(0.001)
        parked(store, API, "c")
        ends = ticket if by == "ticket" else "pair"
        assert messages(released(store, ends, PAIR)) == [b"c"]
        assert kept(store) == [0, 0]

    @pytest.mark.parametrize("why", ["paused", "unsatisfiable"])
    def test_for_a_refusal_without_an_end_it_keeps_nothing(
        self, store: Store, clock: Clock, why: str
    ) -> None:
        """H8 by C1 or C2: grant in the same hand-on what it kept."""
        keeping_two(store, clock, FOUR)
        if why == "paused":
            store.pause("third")
        else:
            store.set_limit(3, "third")
        assert messages(released(store, "x", DISK)) == [b"c"]
        assert kept(store, "api", "disk", "third") == [0, 0, 0]
        assert store.snapshot("third").waiting == 1

    @pytest.mark.parametrize("paused", [False, True])
    def test_a_head_that_a_pause_refuses_keeps_nothing(
        self, store: Store, clock: Clock, *, paused: bool
    ) -> None:
        busy(store, clock)
        parked(store, PAIR, "pair")
        if paused:
            store.pause("disk")
        store.release("a", API)
        assert kept(store) == [not paused, 0]
        assert store.snapshot("disk").waiting == 1

    def test_a_clock_that_steps_back_ends_it(self, store: Store, clock: Clock) -> None:
        """Else the room would idle for the length of the step."""
        busy(store, clock)
        parked(store, PAIR, "pair", priority=1)
        store.release("a", API)
        clock.advance(-1)
        assert why(store, API, "b") is Reason.SATURATED
        clock.advance(-STEP)
        assert store.snapshot("api").kept == store.snapshot("disk").kept == 0
        admitted(store, API, "c")
        assert kept(store) == [0, 0]  # so that the totals know of it, too

    def test_a_new_epoch_keeps_it_for_its_time(self, store: Store, clock: Clock) -> None:
        """A replica that took over has what the wait kept before: that is over with its time."""
        keeping(store, clock)
        lose_the_rest = self.remember(store)
        clock.advance(0.001)
        store.release("x", DISK)
        lose_the_rest()
        assert why(store, API, "b") is Reason.RECOVERING
        assert kept(store) == [1, 0]
        clock.advance(GRACE)
        assert kept(store) == [0, 0]
        admitted(store, API, "c")
