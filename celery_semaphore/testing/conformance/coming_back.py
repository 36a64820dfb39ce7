"""Who comes back by itself keeps its turn where others wait in the store: see also Fairness."""

# ruff: noqa: PLR2004, S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Kind, Permit, Reason, Wait
from .calling import calling, calls, granted
from .suite import (
    LEASE,
    TAKE_UP,
    Suite,
    admitted,
    came_back,
    claim,
    held_up,
    messages,
    parked,
    reaped,
    refused,
    released,
    requeued,
    why,
)

if TYPE_CHECKING:
    from ...core.store import Store
    from ..clock import Clock

MEAN = 1.0  # seconds that permits are held, in these tests and as long as nothing is known
DUE = 1.0  # seconds after which the first in line comes back therefore


class ComingBack(Suite):
    def test_a_permit_is_kept_for_who_came_before_the_parked(
        self, store: Store, clock: Clock
    ) -> None:
        first = held_up(store, clock)
        parked(store, claim(), "c")
        assert not store.release("a", claim())
        (kept,) = store.snapshot("api").holders
        assert (kept.holder, kept.granted) == (first, True)
        assert kept.expires_at == clock.now - 0.5 + DUE + MEAN
        assert store.snapshot("api").waiting == 1
        assert why(store, claim(), "d") is Reason.SATURATED
        clock.advance(0.5)
        permit = admitted(store, claim(), "b2", came_back(first))
        assert (permit.token, permit.expires_at) == (kept.token, clock.now + LEASE)
        assert admitted(store, claim(), "b2", came_back(first)) == permit
        assert messages(released(store, "b2", claim())) == [b"c"]

    def test_a_permit_is_kept_for_who_came_before_a_caller(
        self, store: Store, clock: Clock
    ) -> None:
        first = held_up(store, clock)
        second = calling(store, claim(), "c")
        store.release("a", claim())
        assert granted(store) == [first]
        admitted(store, claim(), "b2", came_back(first))
        store.release("b2", claim())
        assert granted(store) == [second]

    def test_who_came_after_them_waits_behind_them(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(0.5)
        parked(store, claim(), "c")
        clock.advance(0.5)
        requeued(store, claim(), "b", longest=DUE)
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_higher_priority_is_before_them(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(0.5)
        parked(store, claim(), "c")
        clock.advance(0.5)
        urgent = requeued(store, claim(), "b", priority=9)
        assert not store.release("a", claim())
        assert granted(store) == [urgent]

    def test_the_oldest_that_can_be_expected(self, store: Store, clock: Clock) -> None:
        for holder in "ax":
            admitted(store, claim(2), holder)
        requeued(store, claim(2), "far", shortest=100.0)
        near = []
        for holder in "bcd":
            clock.advance(0.25)
            near.append(requeued(store, claim(2), holder, longest=DUE))
        clock.advance(0.25)
        parked(store, claim(2), "e")
        assert not store.release("a", claim(2))
        first = store.snapshot("api").holders[-1]
        assert not store.release("x", claim(2))
        assert granted(store) == near[:2]
        assert first in store.snapshot("api").holders  # as it was: it is handed one

    def test_nothing_is_kept_for_who_is_due_much_later(self, store: Store, clock: Clock) -> None:
        """A permit does not idle for longer than permits are held."""
        held_up(store, clock, shortest=0.5 + MEAN + 0.001)
        parked(store, claim(), "c")
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_what_is_near_follows_the_mean(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        clock.advance(5)
        first = requeued(store, claim(), "b", shortest=15.0)
        clock.advance(5)
        parked(store, claim(), "c")
        assert not store.release("a", claim())
        (kept,) = store.snapshot("api").holders
        assert (kept.holder, kept.expires_at) == (first, clock.now + 10 + 10)

    def test_a_permit_is_not_kept_for_long_after_it_was_due(
        self, store: Store, clock: Clock
    ) -> None:
        first = held_up(store, clock)
        parked(store, claim(), "c")
        store.release("a", claim())
        clock.advance(DUE - 0.5 + MEAN - 0.001)
        assert not store.reap()
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"c"]
        late = refused(store, claim(), "b2", came_back(first))
        assert (late.ticket, late.position) == (first, 0)

    def test_never_for_longer_than_others_have_to_come(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        for _ in range(10):
            clock.advance(LEASE - 1)
            store.renew([permit])
        requeued(store, claim(), "b", longest=5.0, shortest=5.0)
        clock.advance(1)
        parked(store, claim(), "c")
        store.release("a", claim())
        clock.advance(4 + TAKE_UP - 0.001)
        assert not store.reap()
        clock.advance(0.001)
        assert messages(reaped(store)) == [b"c"]

    def test_nothing_is_kept_for_who_is_late(self, store: Store, clock: Clock) -> None:
        """Its message stands in a long queue, or is gone."""
        for n in range(20):
            admitted(store, claim(), str(n))
            clock.advance(0.01)
            store.release(str(n), claim())
        admitted(store, claim(), "a")
        requeued(store, claim(), "b", shortest=0.25)
        clock.advance(0.25 + 1.0)  # it is waited for that long in any case
        parked(store, claim(), "c")
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_nothing_is_kept_while_nobody_is_parked(self, store: Store, clock: Clock) -> None:
        held_up(store, clock)
        store.release("a", claim())
        assert granted(store) == []
        admitted(store, claim(), "c")

    def test_a_limit_too_low_for_it_keeps_nothing(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(3), "a")
        clock.advance(0.5)
        requeued(store, claim(3, weight=3), "heavy")
        clock.advance(0.5)
        store.set_limit(1, "api")
        parked(store, claim(3), "c")
        assert messages(released(store, "a", claim(3))) == [b"c"]

    def test_nothing_is_kept_beside_the_unsatisfiable(self, store: Store, clock: Clock) -> None:
        """Who is parked can use nothing that is free: it goes to whoever asks."""
        admitted(store, claim(3, weight=3), "a")
        clock.advance(0.5)
        requeued(store, claim(3), "b")
        clock.advance(0.5)
        parked(store, claim(3, weight=3), "heavy")
        store.set_limit(2, "api")
        store.release("a", claim(3, weight=3))
        assert granted(store) == []
        admitted(store, claim(3), "c")

    def test_a_heavy_one_is_waited_for(self, store: Store, clock: Clock) -> None:
        for holder in "ax":
            admitted(store, claim(2), holder)
        clock.advance(0.5)
        heavy = requeued(store, claim(2, weight=2), "heavy")
        clock.advance(0.25)
        parked(store, claim(2), "c")
        clock.advance(0.25)
        assert not store.release("a", claim(2))
        assert granted(store) == []
        assert not store.release("x", claim(2))
        assert granted(store) == [heavy]

    def test_nobody_starves_behind_callers(self, store: Store, clock: Clock) -> None:
        """Somebody calls all the time; each holds its permit for a second."""
        admitted(store, claim(), "a")
        wait, due, passed = Wait(Kind.REQUEUE, jitter=0.6), clock.now, 0
        answer = store.acquire(claim(), "b", wait)
        callers = [calling(store, claim(), "caller-0")]
        holder, ends = "a", clock.now + 1
        for n in range(1, 200):
            clock.advance(0.05)
            if holder and clock.now >= ends:
                store.release(holder, claim())
                callers.append(calling(store, claim(), f"caller-{n}"))
                holder = ""
            if callers[0] in granted(store):
                admitted(store, claim(), f"took-{n}", calls(callers.pop(0)))
                holder, ends, passed = f"took-{n}", clock.now + 1, passed + 1
            if not isinstance(answer, Permit) and clock.now >= due:
                answer = store.acquire(claim(), f"b-{n}", came_back(answer.ticket or ""))
                due = clock.now + getattr(answer, "retry_after", 0.0)
        assert isinstance(answer, Permit)
        assert passed <= 2
