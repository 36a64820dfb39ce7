"""Test waits that stand for those behind them: rows H8, H9, A13 and A14, for waits with two claims."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...core.permit import Kind
from .acquisition import admitted, came_back, claim, named, parked
from .calling import granted
from .changed_tasks import fill_both
from .grants import limited, messages, reaped, released
from .moved_waits import of_disk
from .session_calls import S, held, holding, nonces
from .suite import Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.permit import Claim
    from ...core.store import Store
    from ...core.ticket import Ticket
    from ..clock import Clock

BOTH = claim() + of_disk(1)
LIGHT, HEAVY = claim(2) + of_disk(3), claim(2) + of_disk(3, weight=3)


def line(store: Store, resource: str) -> list[str]:
    return [each.ticket.nonce for each in store.snapshot(resource).waiters]


def wait_in_turn(
    store: Store, clock: Clock, holders: str, claims: Sequence[Claim] = tuple(BOTH)
) -> list[Ticket]:
    """Park a task for each letter, at one place after the other."""
    tickets = []
    for holder in holders:
        clock.advance(0.001)
        tickets.append(parked(store, claims, holder))
    return tickets


def one_stands_for_another(store: Store, clock: Clock) -> None:
    """Let the heavy "b" move to "disk", where "x" has a permit; "c" stays, which fits beside it."""
    admitted(store, claim(2, weight=2), "a")
    admitted(store, of_disk(3), "x")
    store.ask(S)
    clock.advance(0.001)
    held(store, "b", claims=HEAVY)
    wait_in_turn(store, clock, "c", LIGHT)
    assert released(store, "a", claim(2, weight=2)) == []
    assert (line(store, "api"), line(store, "disk")) == (["c"], ["b"])


class StandingFor(Suite):
    def test_one_moves_for_all_with_the_same_claims(self, store: Store, clock: Clock) -> None:
        """H8: what refuses the first one refuses the others, too, in whatever order they name their claims."""
        admitted(store, claim(), "a")
        wait_in_turn(store, clock, "bc")
        wait_in_turn(store, clock, "d", BOTH[::-1])
        admitted(store, of_disk(1), "x")
        assert released(store, "a", claim()) == []
        assert (line(store, "api"), line(store, "disk")) == (["c", "d"], ["b"])

    def test_all_run_in_their_order(self, store: Store, clock: Clock) -> None:
        """H8, H9: each one that runs makes way for the next."""
        admitted(store, claim(), "a")
        admitted(store, of_disk(1), "x")
        wait_in_turn(store, clock, "bcdef")
        assert released(store, "a", claim()) == []
        ran, grants = list[bytes](), released(store, "x", of_disk(1))
        while grants:
            ran += messages(grants)
            (grant,) = grants
            holder = f"{grant.ticket.nonce} again"
            admitted(store, BOTH, holder, came_back(grant.ticket, Kind.PARK))
            grants = released(store, holder, BOTH)
        assert ran == [b"b", b"c", b"d", b"e", b"f"]
        assert list(store.resources()) == []

    def test_one_behind_that_claims_less_passes(self, store: Store, clock: Clock) -> None:
        """H8: those before it move, too, or they would block it."""
        admitted(store, claim(), "a")
        admitted(store, of_disk(1), "x")
        wait_in_turn(store, clock, "bcd")
        wait_in_turn(store, clock, "s", claim())
        wait_in_turn(store, clock, "e")
        assert messages(released(store, "a", claim())) == [b"s"]
        assert (line(store, "api"), line(store, "disk")) == (["e"], ["b", "c", "d"])

    def test_one_far_behind_that_claims_less_passes(self, store: Store, clock: Clock) -> None:
        """H8: a server looks at a hundred in one call, and the resource is due."""
        admitted(store, claim(), "a")
        admitted(store, of_disk(1), "x")
        for n in range(150):
            parked(store, BOTH, f"b{n:03}")
            clock.advance(0.001)
        wait_in_turn(store, clock, "s", claim())
        grants = released(store, "a", claim())
        clock.advance(0.1)
        assert messages(grants + reaped(store)) == [b"s"]
        assert line(store, "disk")[:3] == ["b000", "b001", "b002"]

    def test_a_grant_wakes_the_other_line(self, store: Store, clock: Clock) -> None:
        """H9: what the first one leaves is enough for the next one, too, which stands in the other line."""
        admitted(store, claim(2, weight=2), "a")
        admitted(store, of_disk(2, weight=2), "x")
        wait_in_turn(store, clock, "bc", claim(2) + of_disk(2))
        assert released(store, "a", claim(2, weight=2)) == []
        assert sorted(messages(released(store, "x", of_disk(2, weight=2)))) == [b"b", b"c"]

    def test_one_that_is_ended_wakes_the_other_line(self, store: Store, clock: Clock) -> None:
        """E12: end the message for which the other line stands still."""
        admitted(store, claim(2, weight=2), "a")
        admitted(store, of_disk(3), "x")
        named(store, "b", claims=HEAVY)
        wait_in_turn(store, clock, "c", LIGHT)
        assert released(store, "a", claim(2, weight=2)) == []
        assert sorted(messages(store.take(store.end(["b"])))) == [b"b", b"c"]

    def test_one_that_ends_by_time_wakes_the_other_line(self, store: Store, clock: Clock) -> None:
        """E10: it is found by a call at the line where it stands."""
        admitted(store, claim(2, weight=2), "a")
        admitted(store, of_disk(3), "x")
        named(store, "b", 5.0, HEAVY)
        wait_in_turn(store, clock, "c", LIGHT)
        assert released(store, "a", claim(2, weight=2)) == []
        clock.advance(5)
        assert sorted(messages(released(store, "unknown", of_disk(3)))) == [b"b", b"c"]

    @pytest.mark.parametrize("claims", [HEAVY, of_disk(3, weight=3)])
    def test_one_that_gives_up_wakes_the_other_line(
        self, store: Store, clock: Clock, claims: list[Claim]
    ) -> None:
        """E14: release it by its ticket, perhaps by a task that has changed since."""
        one_stands_for_another(store, clock)
        (waiter,) = store.snapshot("disk").waiters
        assert messages(released(store, waiter.ticket, claims)) == [b"c"]

    def test_one_whose_session_sleeps_wakes_the_other_line(
        self, store: Store, clock: Clock
    ) -> None:
        """H5: a call at its own line finds it."""
        one_stands_for_another(store, clock)
        store.sleep(S)
        assert messages(released(store, "unknown", of_disk(3))) == [b"c"]

    def test_one_that_is_set_aside_wakes_the_other_line(self, store: Store, clock: Clock) -> None:
        """H4: it weighs more than the new limit, and the other one does not."""
        one_stands_for_another(store, clock)
        assert messages(limited(store, 2, "disk")) == [b"c"]

    def test_one_that_moves_and_is_set_aside_stands_for_none(
        self, store: Store, clock: Clock
    ) -> None:
        """H8 by C2, H4: what refuses it is its own weight."""
        admitted(store, claim(2, weight=2), "a")
        store.set_limit(2, "disk")
        store.ask(S)
        held(store, "b", claims=HEAVY)
        wait_in_turn(store, clock, "c", LIGHT)
        assert line(store, "api") == ["b", "c"]
        assert messages(released(store, "a", claim(2, weight=2))) == [b"c"]

    def test_one_that_gives_way_to_its_other_record_stands_for_none(
        self, store: Store, clock: Clock
    ) -> None:
        """H8: the record that stays claims "disk" only, so its grant would wake no other line."""
        fill_both(store)
        ticket = held(store, "b", claims=BOTH).ticket
        held(store, "b2", claims=of_disk(1), ticket=ticket)
        wait_in_turn(store, clock, "c")
        assert released(store, "a", claim()) == []
        assert (line(store, "api"), line(store, "disk")) == ([], ["b", "c"])

    def test_one_that_is_admitted_wakes_the_other_line(self, store: Store, clock: Clock) -> None:
        """A14: its message was delivered again; what it leaves is for the next one, at the next reap."""
        one_stands_for_another(store, clock)
        (waiter,) = store.snapshot("disk").waiters
        admitted(store, claim(2) + of_disk(3, weight=2), "b2", holding(ticket=waiter.ticket))
        assert granted(store) == []
        store.release("x", of_disk(3))
        assert messages(reaped(store)) == [b"c"]

    def test_a_newcomer_behind_those_that_stand_still_is_tried(
        self, store: Store, clock: Clock
    ) -> None:
        """A13 by C5: there is room for it, but the line does not move by itself; it is due."""
        for holder in "az":
            admitted(store, claim(2), holder)
        admitted(store, of_disk(1), "x")
        wait_in_turn(store, clock, "bc", claim(2) + of_disk(1))
        assert released(store, "a", claim(2)) == []
        assert line(store, "api") == ["c"]
        clock.advance(0.001)
        store.ask(S)
        newcomer = held(store, "s", claims=claim(2))
        assert reaped(store) == []
        assert store.ask(S).granted == nonces(newcomer)
        assert line(store, "disk") == ["b", "c"]
