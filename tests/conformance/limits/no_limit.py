"""Test attempts that declare no limit, and those of callables that say 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, why
from tests.conformance.grants import limited, messages, reaped, released
from tests.conformance.limits.declared_limits import declare, limit_of, to_next_window
from tests.conformance.sessions.session_calls import S, held, holding
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


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

    def test_one_of_two_claims_has_none(self, store: Store) -> None:
        """Let it be the first one, then the second one, also in a wait and when its grant is taken up."""
        store.declare({"api": 1, "disk": 1}, "w")
        for first, second in ((None, 1), (1, None)):
            both = claim(first) + claim(second, of="disk")
            permit = admitted(store, both, f"a{first}")
            assert store.renew([permit]) == {permit.holder: Renewal.OK}
            ticket = parked(store, both, f"b{first}")
            store.sent(released(store, permit.holder, both))
            admitted(store, both, f"c{first}", came_back(ticket, Kind.PARK))
            assert released(store, f"c{first}", both) == []

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

    @pytest.mark.parametrize("kind", list(Kind))
    def test_a_wait_that_says_zero_stands_in_no_line(
        self, store: Store, clock: Clock, kind: Kind
    ) -> None:
        """E17: it takes no permit that others can use, nor for a moment; its holder tries once a lease."""
        declare(store, 1)
        store.ask(S)
        zero, first = claim(0), store.snapshot("api").at
        ticket = refused(store, zero, "a", Wait(kind, session=S, longest=300.0)).ticket
        for n in range(3):
            assert is_in_transit(store)
            for other in (f"x{n}", f"y{n}"):
                clock.advance(LEASE / 2)
                assert nothing_granted(store)
                admitted(store, claim(), other)
                assert messages(released(store, other, claim())) == []
            how = Wait(kind, ticket, session=S, longest=300.0)
            again = refused(store, zero, f"a{n}", how)
            assert (again.reason, again.retry_after, again.ticket) == (Reason.PAUSED, LEASE, ticket)
        assert again.waited == store.snapshot("api").at - first
        how = Wait(kind, ticket, session=S, longest=300.0)
        admitted(store, claim(), "says one", how)

    def test_a_limit_that_is_raised_starts_none_that_says_zero(
        self, store: Store, clock: Clock
    ) -> None:
        """H2: beside a wait that was set aside as too heavy, which it starts."""
        declare(store, 1)
        store.ask(S)
        refused(store, claim(0), "zero", holding(longest=300.0))
        parked(store, claim(3, weight=3), "heavy")
        store.reap()
        totals = store.totals(["api"])[0]
        assert (totals.set_aside, totals.in_transit) == (1, 1)
        started = limited(store, 3, "api")
        store.sent(started)
        assert messages(started) == [b"heavy"]
        clock.advance(LEASE)
        assert nothing_granted(store)

    def test_a_grant_of_one_that_says_zero_goes_to_the_next(
        self, store: Store, clock: Clock
    ) -> None:
        """A11: the message that it had parked goes, for its worker has it (E17)."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        clock.advance(0.001)
        parked(store, claim(), "c")
        store.take(
            store.release("a", claim()).outgoing
        )  # and its worker has not told yet that it sent it
        refused(store, claim(0), "b2", came_back(ticket, Kind.PARK, longest=300.0))
        assert messages(reaped(store)) == [b"c"]
        store.release("c", claim())
        totals = store.totals(["api"])[0]
        assert (totals.parked, totals.in_transit) == (0, 1)

    def test_a_held_one_that_says_zero_leaves_its_grant_to_the_next(
        self, store: Store, clock: Clock
    ) -> None:
        """A11: let nothing else make the resource due for a look, for the last one was a moment ago."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        clock.advance(0.001)
        parked(store, claim(), "c")
        store.release("a", claim())
        assert store.ask(S).granted == {wait.ticket.nonce}
        clock.advance(0.5)
        assert reaped(store) == []
        refused(store, claim(0), "b2", holding(ticket=wait.ticket, longest=300.0))
        assert messages(reaped(store)) == [b"c"]

    def test_a_second_claim_says_zero(self, store: Store, clock: Clock) -> None:
        """It refuses before the first claim, in whose line the wait would be granted what it cannot use."""
        both = claim() + claim(0, of="disk")
        admitted(store, claim(), "a")
        clock.advance(0.001)
        answer = refused(store, both, "b", Wait(Kind.PARK, longest=300.0))
        assert (answer.reason, answer.claim.resource, answer.limit) == (Reason.PAUSED, "disk", 0)
        assert [store.snapshot(name).waiting for name in ("api", "disk")] == [0, 1]
        assert released(store, "a", claim()) == []
        admitted(store, claim(), "c")


def is_in_transit(store: Store) -> bool:
    (totals,), seen = store.totals(["api"]), store.snapshot("api")
    assert (totals.waiting, totals.set_aside) == (1, 0)
    return totals.in_transit == 1 and not seen.waiters[0].reachable


def nothing_granted(store: Store) -> bool:
    return not reaped(store) and not store.ask(S).granted
