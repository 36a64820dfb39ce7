"""Test that a wait keeps the room that it found while another of its claims is saturated: row H12, chapter 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, requeued, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.hand_on.load import Load
from tests.conformance.sessions.session_calls import HOUR, S, held, holding
from tests.conformance.suite import Suite
from tests.conformance.waiting.calling import calling, granted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

API, DISK, THIRD = claim(), claim(of="disk"), claim(of="third")
PAIR = API + DISK


def called(store: Store, claims: Sequence[Claim], holder: str) -> Ticket:
    store.ask("a calling process")
    return calling(store, claims, holder)


def held_by_session(store: Store, claims: Sequence[Claim], holder: str) -> Ticket:
    store.ask(S)
    return held(store, holder, S, claims).ticket


WAYS = {"parked": parked, "kept": held_by_session, "called": called}


def held_before(store: Store, clock: Clock, claims: Sequence[Claim], seconds: float) -> None:
    """Let permits of these resources be held for so long on average."""
    holder = f"before, at {clock.now:.3f}"
    admitted(store, claims, holder)
    clock.advance(seconds)
    store.release(holder, claims)


def busy(store: Store, clock: Clock, seconds: float = 2.0) -> None:
    """Let both have a holder, and ``api`` soon a mean of so many seconds; that of ``disk`` is 1 s."""
    held_before(store, clock, DISK, 1.0)
    admitted(store, API, "a")
    admitted(store, DISK, "x")
    clock.advance(seconds)


def keeping(
    store: Store,
    clock: Clock,
    claims: Sequence[Claim] = tuple(PAIR),
    way: Callable[..., Ticket] = parked,
) -> Ticket:
    """Let a wait find room at ``api`` while ``disk`` is busy: it keeps the room for 3 s."""
    busy(store, clock)
    ticket = way(store, claims, "pair")
    clock.advance(0.001)
    store.release("a", API)
    assert store.snapshot("disk").waiters[0].ticket == ticket
    return ticket


def kept(store: Store, *resources: str) -> list[int]:
    names = resources or ("api", "disk")
    found = [store.snapshot(each).kept for each in names]
    assert [each.kept for each in store.totals(names)] == found
    return found


class KeptRoom(Suite):
    @pytest.mark.parametrize("urgent", [False, True])
    @pytest.mark.parametrize(
        ("claims", "limit", "weight"),
        [(PAIR, 1, 1), (PAIR, 3, 1), (PAIR, 3, 3), (PAIR, 8, 8), ([*PAIR, *THIRD], 1, 1)],
    )
    def test_a_wait_with_several_claims_has_its_turn(
        self,
        store: Store,
        clock: Clock,
        claims: list[Claim],
        limit: int,
        weight: int,
        *,
        urgent: bool,
    ) -> None:
        """Grant it before 20 single tasks that came later, though never are two permits free at once."""
        store.ask(S)
        load = Load(store, clock, claims, limit)
        wanted = [Claim(each.semaphore, None, limit, weight) for each in claims]
        pair = held(store, "pair", S, wanted, priority=9 * urgent)
        load.goes_on_until(pair.ticket)

    @pytest.mark.parametrize("waits", [3, 30])
    @pytest.mark.parametrize("way", ["in transit", "set aside"])
    def test_waits_that_block_no_other_cost_it_no_turn(
        self, store: Store, clock: Clock, way: str, waits: int
    ) -> None:
        """Let it have its turn behind waits to which nothing can be granted, of which more and more may come."""
        store.ask(S)
        load = Load(store, clock, PAIR, 1)
        for at in ("api", "disk"):
            for n in range(waits):
                wanted, wait = (
                    (claim(of=at), Wait(Kind.REQUEUE, keeps=HOUR))
                    if way == "in transit"
                    else (claim(2, of=at, weight=2), holding())
                )
                refused(store, wanted, f"{way} {n} {at}", wait)
        load.goes_on_until(held(store, "pair", S, PAIR).ticket)

    @pytest.mark.parametrize("way", WAYS)
    def test_a_wait_keeps_the_room_that_it_found(
        self, store: Store, clock: Clock, way: str
    ) -> None:
        ticket = keeping(store, clock, way=WAYS[way])
        assert kept(store) == [1, 0]
        refusal = refused(store, API, "later", Wait(Kind.REQUEUE))
        assert (refusal.reason, refusal.position) == (Reason.SATURATED, 0)
        assert (refusal.occupied, refusal.kept, refusal.limit) == (0, 1, 1)
        store.release("x", DISK)
        assert granted(store) == granted(store, "disk") == [ticket]
        assert kept(store) == [0, 0]

    def test_a_line_waits_for_kept_room(self, store: Store, clock: Clock) -> None:
        """H6: a parked task that came later blocks its line, until the pair has run."""
        busy(store, clock)
        ticket = parked(store, PAIR, "pair")
        clock.advance(0.001)
        parked(store, API, "c")
        assert not released(store, "a", API)
        assert messages(released(store, "x", DISK)) == [b"pair"]
        admitted(store, PAIR, "pair 2", came_back(ticket, Kind.PARK))
        assert messages(released(store, "pair 2", PAIR)) == [b"c"]

    def test_only_what_is_kept_is_refused(self, store: Store, clock: Clock) -> None:
        """C4: of five permits two are kept, and others use three."""
        heavy = claim(5, weight=5)
        held_before(store, clock, DISK, 1.0)
        admitted(store, heavy, "a")
        parked(store, [*claim(5, weight=2), *DISK], "pair")  # in the line of api: disk has room
        admitted(store, DISK, "x")
        clock.advance(2)
        store.release("a", heavy)
        assert kept(store) == [2, 0]
        admitted(store, claim(5), "b")
        admitted(store, claim(5), "c")
        assert why(store, claim(5, weight=2), "d") is Reason.SATURATED
        admitted(store, claim(5), "e")
        refusal = refused(store, claim(5), "f")
        assert (refusal.occupied, refusal.kept) == (3, 2)

    def test_an_earlier_task_takes_it(self, store: Store, clock: Clock) -> None:
        """C4: the oldest of all waits never waits for kept room."""
        admitted(store, API, "before")
        early = requeued(store, API, "early")
        clock.advance(1)
        store.release("before", API)
        keeping(store, clock)
        admitted(store, API, "early 2", came_back(early))
        store.release("early 2", API)
        assert why(store, API, "later") is Reason.SATURATED

    def test_a_more_urgent_task_takes_it(self, store: Store, clock: Clock) -> None:
        """C4: a new one, too; the wait keeps the room that is free again."""
        ticket = keeping(store, clock)
        admitted(store, API, "urgent", Wait(Kind.REQUEUE, priority=1))
        assert kept(store) == [1, 0]
        refusal = refused(store, API, "urgent, too", Wait(Kind.REQUEUE, priority=1))
        assert (refusal.occupied, refusal.kept) == (1, 0)  # it does not wait for kept room
        store.release("urgent", API)
        assert why(store, API, "later") is Reason.SATURATED
        store.release("x", DISK)
        assert granted(store) == [ticket]

    def test_it_keeps_no_room_from_itself(self, store: Store, clock: Clock) -> None:
        """C4: nor does a delivery of the same wait that comes when the rest is free."""
        ticket = keeping(store, clock)
        admitted(store, DISK, "x")
        clock.advance(0.5)
        store.set_limit(2, "disk")
        assert granted(store) == [ticket]

    def test_it_keeps_all_the_rooms_that_it_found(self, store: Store, clock: Clock) -> None:
        """Except the ones that would refuse it, too."""
        busy(store, clock)
        admitted(store, THIRD, "t")
        fourth = claim(2, of="fourth", weight=2)
        parked(store, [*API, *DISK, *THIRD, *fourth], "four")
        store.release("a", API)
        assert kept(store, "api", "disk", "third", "fourth") == [1, 0, 0, 2]

    def test_two_that_keep_room_for_each_other(self, store: Store, clock: Clock) -> None:
        """Let the more urgent one go first: no two wait for kept room in a circle."""
        first = keeping(store, clock)
        urgent = parked(store, [*DISK, *API], "urgent", priority=1)  # in the line of disk
        admitted(store, API, "u", Wait(Kind.REQUEUE, priority=2))
        clock.advance(1.5)
        assert not released(store, "x", DISK)
        assert kept(store) == [1, 1]
        assert messages(released(store, "u", API)) == [b"urgent"]
        admitted(store, PAIR, "urgent 2", came_back(urgent, Kind.PARK))
        assert not reaped(store)
        assert messages(released(store, "urgent 2", PAIR)) == [b"pair"]
        assert granted(store, "disk") == [first]
