"""Test attempts that declare no limit, and those of callables that say 0."""

# ruff: noqa: PLR2004, S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ...core.permit import Kind, MessageId, Reason, Refusal, Wait
from .acquisition import admitted, came_back, claim, parked, refused, why
from .declared_limits import declare, limit_of, to_next_window
from .grants import messages, reaped, released
from .session_calls import S, held, holding
from .suite import LEASE, Suite

if TYPE_CHECKING:
    from ...core.store import Store
    from ..clock import Clock


class NoLimit(Suite):
    def test_one_without_a_limit_obeys_the_one_in_force(self, store: Store, clock: Clock) -> None:
        none = claim(None)
        declare(store, 2)
        for n in range(2):
            admitted(store, none, f"a{n}")
        assert refused(store, none, "x").limit == 2
        to_next_window(clock)
        declare(store, None, 3)
        assert limit_of(store) == 2
        to_next_window(clock)
        declare(store, None)
        assert limit_of(store) == 3, "it is no declaration, which would keep the lower one"

    def test_none_is_known(self, store: Store) -> None:
        refusal = refused(store, claim(None), "a")
        assert (refusal.reason, refusal.limit) == (Reason.PAUSED, 0)
        assert limit_of(store) is None
        admitted(store, claim(2), "b")
        assert limit_of(store) == 2

    def test_a_wait_without_a_limit_moves_once_one_is_known(
        self, store: Store, clock: Clock
    ) -> None:
        parked(store, claim(None), "a")
        clock.advance(0.001)
        declare(store, 2)
        assert messages(reaped(store)) == [b"a"]

    def test_zero_refuses_its_own_attempt_only(self, store: Store) -> None:
        """C1: of a callable that says that its task must not run now."""
        declare(store, 2)
        zero = claim(0)
        refusal = refused(store, zero, "a", Wait(Kind.REQUEUE, longest=300.0))
        assert (refusal.reason, refusal.limit, refusal.retry_after) == (Reason.PAUSED, 0, LEASE)
        assert limit_of(store) == 2
        admitted(store, claim(2), "b")
        admitted(store, claim(2), "c")

    def test_a_zero_before_any_limit_is_none(self, store: Store) -> None:
        assert why(store, claim(0), "a") is Reason.PAUSED
        assert limit_of(store) is None
        admitted(store, claim(), "b")

    @pytest.mark.parametrize("parks", [False, True])
    def test_a_wait_that_says_zero_tries_once_a_lease(
        self, store: Store, clock: Clock, *, parks: bool
    ) -> None:
        """It stands aside, keeps its place, and takes no permit that another can use."""
        declare(store, 1)
        store.ask(S)
        zero, first = claim(0), store.snapshot("api").at
        if parks:
            ticket = parked(store, zero, "a", longest=300.0)
        else:
            ticket = held(store, "a", claims=zero, longest=300.0).ticket
        assert store.snapshot("api").waiting == store.totals(["api"])[0].set_aside == 1
        assert [waiter.reachable for waiter in store.snapshot("api").waiters] == [True]
        for n in range(3):
            clock.advance(LEASE / 2)
            admitted(store, claim(), f"other:{n}")
            assert messages(released(store, f"other:{n}", claim())) == []
            assert store.ask(S).granted == frozenset()
            clock.advance(LEASE / 2)
            store.ask(S)
            grants = reaped(store)
            assert len(grants) + len(store.ask(S).granted) == 1
            store.sent(grants)
            assert why(store, claim(), "other2") is Reason.SATURATED
            kind = Kind.PARK if parks else Kind.REQUEUE
            how: dict[str, Any] = {} if parks else {"session": S}
            again = refused(store, zero, "a2", came_back(ticket, kind, longest=300.0, **how))
            assert (again.reason, again.ticket) == (Reason.PAUSED, ticket)
            assert store.snapshot("api").occupied == 0
            if parks:
                assert not store.attach(ticket, zero, b"a")
        assert again.waited == store.snapshot("api").at - first

    def test_a_wait_says_zero_no_more(self, store: Store, clock: Clock) -> None:
        declare(store, 1)
        store.ask(S)
        ticket = held(store, "a", claims=claim(0), longest=300.0).ticket
        clock.advance(LEASE)
        store.ask(S)
        store.reap()
        admitted(store, claim(), "a2", holding(ticket=ticket))

    def test_a_second_claim_says_zero(self, store: Store, clock: Clock) -> None:
        """H9, A11: the line where it stands first knows nothing of it."""
        both = claim() + claim(0, of="disk")
        declare(store, 1)
        store.acquire(claim(of="disk"), "d")
        store.release("d", claim(of="disk"))
        admitted(store, claim(), "a")
        clock.advance(0.001)
        ticket = parked(store, both, "b", longest=300.0)
        assert store.snapshot("api").waiting == 1
        store.sent(released(store, "a", claim()))
        answer = store.acquire(
            both, "b2", came_back(ticket, Kind.PARK, longest=300.0), MessageId("task:b", "2")
        )
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.claim.resource, answer.limit) == (Reason.PAUSED, "disk", 0)
        assert [store.snapshot(name).occupied for name in ("api", "disk")] == [0, 0]
