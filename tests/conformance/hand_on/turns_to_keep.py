"""Test when a wait keeps the room that it found: only where its turn is worth it, by both conditions of row H12."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.encoding import KEPT_ROOMS
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import limited, released
from tests.conformance.hand_on.kept_room import API, DISK, PAIR, held_before, kept
from tests.conformance.sessions.session_calls import HOUR
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class OneClaim(NamedTuple):
    """One claim of the wait, and for how long permits are held there; without ``mean`` it is not known yet."""

    limit: int = 1
    weight: int = 1
    mean: float | None = None

    def of(self, resource: str, weight: int = 0) -> list[Claim]:
        return claim(self.limit, of=resource, weight=weight or self.weight)


def find_room(
    store: Store, clock: Clock, here: OneClaim, there: OneClaim, ahead: int, *, others: str = ""
) -> None:
    """Let a wait find room at ``api``, and ``disk`` refuse it, where so many waits stand before it."""
    for at, side in {"api": here, "disk": there}.items():
        if side.mean is not None:
            held_before(store, clock, side.of(at), side.mean)
    heavy = there.of("disk", there.limit)  # a wait before it counts as one, whatever its weight
    admitted(store, heavy, "x")
    for n in range(30 if others else 0):
        if others == "in transit":
            refused(store, heavy, f"{others} {n}", Wait(Kind.REQUEUE, keeps=HOUR))
        else:
            too_heavy = claim(there.limit + 1, of="disk", weight=there.limit + 1)
            parked(store, too_heavy, f"{others} {n}")
    assert not released(store, "unknown", heavy)  # H4
    for n in range(ahead):
        clock.advance(0.001)
        parked(store, heavy, f"ahead {n}")
    clock.advance(0.001)
    store.set_limit(0, "api")
    parked(store, [*here.of("api"), *there.of("disk")], "pair")
    assert not limited(store, None, "api")
    assert store.snapshot("api").waiting == 0


class TurnsToKeep(Suite):
    @pytest.mark.parametrize(
        ("here", "there", "ahead", "keeps"),
        [
            # by (1): permits for its weight come at most twice as soon here as there
            (OneClaim(4, 1, 8.0), OneClaim(1, 1, 4.0), 0, 1),
            (OneClaim(4, 1, 8.0), OneClaim(1, 1, 4.1), 0, 0),
            (OneClaim(10, 1, 6.0), OneClaim(1, 1, 1.2), 0, 1),
            (OneClaim(10, 1, 6.0), OneClaim(1, 1, 1.3), 0, 0),
            (OneClaim(10, 1, 6.0), OneClaim(1, 1, 6.0), 0, 0),  # a key, and a limit over all keys
            (OneClaim(20, 1, 2.0), OneClaim(5, 1, 1.0), 0, 1),
            (OneClaim(20, 1, 2.0), OneClaim(5, 1, 1.1), 0, 0),
            (
                OneClaim(8, 2, 8.0),
                OneClaim(6, 3, 8.0),
                0,
                2,
            ),  # 4 s there, 2 s here, by their weights
            (OneClaim(8, 2, 8.0), OneClaim(6, 3, 8.1), 0, 0),
            (OneClaim(8, 1, 8.0), OneClaim(6, 3, 4.0), 0, 1),
            (OneClaim(8, 1, 8.0), OneClaim(6, 3, 4.1), 0, 0),
            # by (2): its turn there takes no longer than permits are held here twice
            (OneClaim(1, 1, 1.0), OneClaim(1, 1, 1.0), 0, 1),
            (OneClaim(1, 1, 1.0), OneClaim(1, 1, 2.0), 0, 1),
            (OneClaim(1, 1, 1.0), OneClaim(1, 1, 2.1), 0, 0),
            (OneClaim(1, 1, 2.0), OneClaim(1, 1, 1.0), 3, 1),
            (OneClaim(1, 1, 2.0), OneClaim(1, 1, 1.1), 3, 0),
            (OneClaim(1, 1, 2.9), OneClaim(1, 1, 1.0), 5, 0),
            (OneClaim(1, 1, 1.5), OneClaim(2, 2, 1.0), 4, 1),  # its weight, and 4 before it, by 2
            (OneClaim(1, 1, 1.4), OneClaim(2, 2, 1.0), 4, 0),
            (OneClaim(3, 3, 4.0), OneClaim(5, 1, 4.0), 9, 3),
            (OneClaim(3, 3, 4.0), OneClaim(5, 1, 4.1), 9, 0),
            (OneClaim(4, 2, 2.0), OneClaim(4, 1, 2.0), 7, 2),
            (OneClaim(4, 2, 2.0), OneClaim(4, 1, 2.0), 8, 0),
            # the mean here is not known: that of there
            (OneClaim(), OneClaim(mean=5.0), 0, 1),
            (OneClaim(), OneClaim(mean=0.5), 2, 0),
            (OneClaim(4), OneClaim(2, mean=5.0), 0, 1),
            (OneClaim(5), OneClaim(2, mean=0.1), 0, 0),
            # there: that of here
            (OneClaim(mean=0.5), OneClaim(), 0, 1),
            (OneClaim(mean=2.5), OneClaim(), 2, 0),
            (OneClaim(2, mean=0.4), OneClaim(), 0, 1),
            (OneClaim(3, mean=1.6), OneClaim(), 0, 0),
            # both
            (OneClaim(), OneClaim(), 0, 1),
            (OneClaim(), OneClaim(), 2, 0),
            (OneClaim(), OneClaim(2), 1, 1),
            (OneClaim(3), OneClaim(), 0, 0),
            # 0, of permits that were given back at once, is known
            (OneClaim(mean=1.0), OneClaim(mean=0.0), 5, 1),
            (OneClaim(mean=0.0), OneClaim(mean=0.1), 0, 0),
            (OneClaim(mean=0.0), OneClaim(), 5, 1),
            (OneClaim(), OneClaim(mean=0.0), 5, 1),
        ],
    )
    def test_it_keeps_room_only_if_its_turn_comes_soon(
        self, store: Store, clock: Clock, *, here: OneClaim, there: OneClaim, ahead: int, keeps: int
    ) -> None:
        find_room(store, clock, here, there, ahead)
        assert kept(store) == [keeps, 0]

    @pytest.mark.parametrize("others", ["in transit", "set aside"])
    @pytest.mark.parametrize(("ahead", "keeps"), [(3, 1), (4, 0)])
    def test_of_those_before_it_only_the_ones_in_line_count(
        self, store: Store, clock: Clock, others: str, ahead: int, keeps: int
    ) -> None:
        find_room(store, clock, OneClaim(mean=2.0), OneClaim(mean=1.0), ahead, others=others)
        assert kept(store) == [keeps, 0]
        assert store.snapshot("disk").waiting == ahead + 31

    @pytest.mark.parametrize(
        ("here", "there", "ahead", "lasts"),
        [
            (OneClaim(), OneClaim(), 0, 3.0),
            (OneClaim(mean=2.0), OneClaim(), 0, 5.0),
            (OneClaim(), OneClaim(mean=0.5), 0, 2.0),
            (OneClaim(mean=3.0), OneClaim(mean=1.0), 2, 7.0),
            (OneClaim(mean=3.0), OneClaim(4, 3, 2.0), 2, 6.0),
            (OneClaim(mean=1.0), OneClaim(3, 1, 1.0), 0, 1.666_666),  # in whole microseconds, cut
        ],
    )
    def test_it_keeps_it_for_a_second_and_twice_its_turn(
        self,
        store: Store,
        clock: Clock,
        *,
        here: OneClaim,
        there: OneClaim,
        ahead: int,
        lasts: float,
    ) -> None:
        find_room(store, clock, here, there, ahead)
        clock.advance(lasts - 0.000_001)
        assert kept(store) == [1, 0]
        clock.advance(0.000_001)
        assert kept(store) == [0, 0]

    @pytest.mark.parametrize(
        ("times", "here", "ahead", "keeps"),
        [
            ((1.0, 1.000_001), 2.000_001, 3, 1),  # 1.0000005 s
            ((1.0, 1.0, 1.000_001), 1.5, 2, 0),
        ],
    )
    def test_means_are_not_rounded(
        self,
        store: Store,
        clock: Clock,
        *,
        times: tuple[float, ...],
        here: float,
        ahead: int,
        keeps: int,
    ) -> None:
        for seconds in times:
            held_before(store, clock, DISK, seconds)
        find_room(store, clock, OneClaim(mean=here), OneClaim(), ahead)
        assert kept(store) == [keeps, 0]

    def test_the_time_of_both_counts(self, store: Store, clock: Clock) -> None:
        """Keep no room where permits are held for less than half as long as where the wait is refused; but there."""
        held_before(store, clock, DISK, 3.0)
        admitted(store, DISK, "y")
        admitted(store, API, "a")
        clock.advance(1)
        parked(store, PAIR, "pair")
        store.release("a", API)
        assert kept(store) == [0, 0]
        admitted(store, API, "b")
        store.release("y", DISK)
        assert kept(store) == [0, 1]

    def test_of_many_waits_twenty_keep_room(self, store: Store, clock: Clock) -> None:
        """H12: no call goes through more; all of them move. Later ones that keep room do not count."""
        many, both = KEPT_ROOMS + 5, [*claim(200), *claim(200, of="disk")]
        admitted(store, claim(200, of="disk", weight=200), "x")
        store.set_limit(0, "api")
        for n in range(many):
            parked(store, both, f"pair {n:03}")
            clock.advance(0.001)
        assert not limited(store, None, "api")
        assert store.snapshot("disk").waiting == many
        assert kept(store) == [KEPT_ROOMS, 0] == [20, 0]
        store.set_limit(0, "api")
        parked(store, both, "urgent", priority=1)
        assert not limited(store, None, "api")
        assert kept(store) == [KEPT_ROOMS + 1, 0]
        admitted(store, claim(200, weight=199 - KEPT_ROOMS), "b")

    def test_for_a_weight_above_the_limit_it_keeps_nothing(
        self, store: Store, clock: Clock
    ) -> None:
        """H8 by C2: its turn never comes, though permits are held for long where it has room."""
        held_before(store, clock, API, 20.0)
        held_before(store, clock, DISK, 1.0)
        store.set_limit(0, "api")
        parked(store, [*API, *claim(2, of="disk", weight=2)], "pair")
        store.set_limit(1, "disk")
        assert not limited(store, None, "api")
        assert store.snapshot("disk").waiting == 1
        assert kept(store) == [0, 0]
