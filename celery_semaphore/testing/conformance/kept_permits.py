"""A permit that is kept for who comes back by itself."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Kind, Wait
from .calling import granted
from .suite import (
    LEASE,
    TAKE_UP,
    Suite,
    admitted,
    attached,
    came_back,
    claim,
    held_up,
    messages,
    parked,
    refused,
    released,
    requeued,
)

if TYPE_CHECKING:
    from ...core.store import Store
    from ..clock import Clock

BOTH = claim() + claim(of="disk")


class KeptPermits(Suite):
    def test_a_permit_is_kept_on_all_its_claims(self, store: Store, clock: Clock) -> None:
        admitted(store, BOTH, "a")
        clock.advance(0.5)
        first = requeued(store, BOTH, "b")
        clock.advance(0.5)
        parked(store, claim(), "c")
        admitted(store, claim(of="x"), "y")
        store.release("a", BOTH)
        assert granted(store) == granted(store, "disk") == [first]
        admitted(store, BOTH, "b2", came_back(first))
        assert store.snapshot("disk").occupied == 1

    def test_a_permit_is_kept_on_claims_that_the_releaser_does_not_know(
        self, store: Store, clock: Clock
    ) -> None:
        first = held_up(store, clock, BOTH)
        parked(store, claim(), "c")
        assert not store.release("a", claim())
        assert granted(store) == granted(store, "disk") == [first]

    def test_who_is_refused_elsewhere_moves_there(self, store: Store, clock: Clock) -> None:
        first = held_up(store, clock, BOTH)
        admitted(store, claim(of="disk"), "x")
        parked(store, claim(), "c")
        assert messages(released(store, "a", claim())) == [b"c"]
        assert [waiter.id for waiter in store.snapshot("disk").waiters] == [first]
        assert store.snapshot("api").waiting == 0
        admitted(store, BOTH, "b2", came_back(self._freed(store, first)))

    def _freed(self, store: Store, ticket: str) -> str:
        """Both permits are free again."""
        store.release("x", claim(of="disk"))
        (held,) = store.snapshot("api").holders
        store.release(held.holder, claim())
        return ticket

    def test_how_long_it_was_kept_is_not_how_long_it_was_held(
        self, store: Store, clock: Clock
    ) -> None:
        """Else each would make the next one idle for longer."""
        first = held_up(store, clock)
        parked(store, claim(), "c")
        store.release("a", claim())
        clock.advance(0.5)
        assert admitted(store, claim(), "b2", came_back(first)).acquired_at == clock.now
        clock.advance(1)
        store.release("b2", claim())
        assert store.snapshot("api").mean_held == 1

    def test_a_kept_permit_can_be_given_up(self, store: Store, clock: Clock) -> None:
        first = held_up(store, clock)
        parked(store, claim(), "c")
        store.release("a", claim())
        assert messages(released(store, first, claim())) == [b"c"]

    def test_one_that_nobody_knows_of_can_be_given_up(self, store: Store, clock: Clock) -> None:
        """It was refused and its answer was lost: who asked knows its own name only."""
        held_up(store, clock)
        parked(store, claim(), "c")
        store.release("a", claim())
        assert messages(released(store, "b", claim())) == [b"c"]

    def test_what_is_parked_after_all_goes_out_at_once(self, store: Store, clock: Clock) -> None:
        """A worker has refused it, and not attached its message yet."""
        admitted(store, claim(), "a")
        clock.advance(0.5)
        ticket = refused(store, claim(), "b", Wait(Kind.PARK)).ticket or ""
        clock.advance(0.5)
        parked(store, claim(), "c")
        assert not store.release("a", claim())
        (grant,) = attached(store, ticket, claim(), b"b")
        assert (grant.ticket, grant.payload) == (ticket, b"b")
        assert grant.expires_at == clock.now + TAKE_UP
        assert store.take(store.attach(ticket, claim(), b"b")) == []
        store.sent([grant])
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert messages(released(store, "b2", claim())) == [b"c"]

    def test_what_is_parked_after_all_goes_out_with_all_its_claims(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, BOTH, "a")
        clock.advance(0.5)
        ticket = refused(store, BOTH, "b", Wait(Kind.PARK)).ticket or ""
        clock.advance(0.5)
        parked(store, claim(), "c")
        store.release("a", BOTH)
        assert messages(attached(store, ticket, BOTH, b"b")) == [b"b"]
        for name in ("api", "disk"):
            (grant,) = store.snapshot(name).holders
            assert (grant.holder, grant.expires_at) == (ticket, clock.now + TAKE_UP)

    def test_a_message_attached_to_a_part_of_its_grant_waits(
        self, store: Store, clock: Clock
    ) -> None:
        """Of a crowd that is overdue a store may end so many at once: the grant ends at one claim first."""
        many, both = claim(60), claim(60) + claim(of="disk")
        for n in range(60):
            admitted(store, many, f"h{n}")
        clock.advance(LEASE - 0.5)
        ticket = refused(store, both, "b", Wait(Kind.PARK)).ticket or ""
        parked(store, many, "c")
        store.release("h0", many)
        assert granted(store) == granted(store, "disk") == [ticket]
        clock.advance(LEASE + TAKE_UP)
        admitted(store, claim(of="disk"), "x")
        attached(store, ticket, both, b"b")
        assert [held.holder for held in store.snapshot("disk").holders] == ["x"]

    def test_a_message_attached_with_another_weight_waits(self, store: Store, clock: Clock) -> None:
        """Its permit was kept for less than its task takes now."""
        admitted(store, claim(2), "x")
        admitted(store, claim(2), "a")
        clock.advance(0.5)
        ticket = refused(store, claim(2), "b", Wait(Kind.PARK)).ticket or ""
        clock.advance(0.5)
        parked(store, claim(2), "c")
        store.release("a", claim(2))
        assert granted(store) == [ticket]
        assert attached(store, ticket, claim(2, weight=2), b"b") == []
        assert store.snapshot("api").occupied == 1
        assert messages(released(store, "x", claim(2))) == [b"b"]

    def test_who_parks_but_comes_back_by_itself_has_its_turn(
        self, store: Store, clock: Clock
    ) -> None:
        """Its message was too large for the store."""
        admitted(store, claim(), "a")
        clock.advance(0.5)
        ticket = refused(store, claim(), "b", Wait(Kind.PARK)).ticket or ""
        clock.advance(0.5)
        parked(store, claim(), "c")
        assert not store.release("a", claim())
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
