"""Test tasks that come back with other claims than they wait for: their wait keeps its own (A19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_semaphore.core.claim import OtherClaims
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.session import GRANT_S, HeldWait, Standing
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, named, parked, refused, why
from tests.conformance.grants import attached, messages, reaped, released
from tests.conformance.sessions.session_calls import S, held, holding, nonces
from tests.conformance.suite import LEASE, TAKE_UP, Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

DISK = claim(of="disk")
BOTH = claim() + DISK
CHANGED = {
    "another": DISK,
    "fewer": claim(),
    "more": BOTH + claim(of="net"),
    "heavier": claim(2, weight=2) + DISK,
    "lighter and disjoint": claim(of="net"),
}
changes = pytest.mark.parametrize("changed", CHANGED.values(), ids=list(CHANGED))
FIRST = MessageId("task:0", remember_for=3600.0)
AGAIN = MessageId("task:0", redelivered=True, remember_for=3600.0)


def fill_both(store: Store) -> None:
    """Hold the only permit of each resource, and let the session be awake."""
    admitted(store, claim(), "a")
    admitted(store, DISK, "y")
    store.ask(S)


def is_sent_to(
    store: Store, changed: list[Claim], ticket: Ticket | None, message: MessageId | None = None
) -> tuple[Claim, ...]:
    """Come back with other claims, twice; return those of the wait. Nothing else may have changed."""

    def seen() -> list[Any]:
        found = [store.snapshot(each) for each in ("api", "disk", "net")]
        return [(each.holders, each.waiters, each.waiting) for each in found]

    before = seen()
    told: list[tuple[Claim, ...]] = []
    for kind in (Kind.PARK, Kind.REQUEUE):
        with pytest.raises(OtherClaims) as error:
            store.acquire(changed, "came back", Wait(kind, ticket), message)
        assert ticket is None or error.value.ticket.nonce == ticket.nonce
        told.append(error.value.claims)
    assert seen() == before
    assert told[0] == told[1]
    return told[0]


class ChangedTasks(Suite):
    @changes
    def test_a_parked_task_keeps_its_claims(self, store: Store, changed: list[Claim]) -> None:
        fill_both(store)
        ticket = parked(store, BOTH, "b")
        kept = is_sent_to(store, changed, ticket)
        assert kept == tuple(BOTH)
        answer = refused(store, kept, "b2", came_back(ticket, Kind.PARK))
        assert (answer.ticket, answer.reason) == (ticket, Reason.SATURATED)
        store.release("y", DISK)
        assert messages(released(store, "a", claim())) == [b"b"]

    @changes
    def test_a_held_task_keeps_its_claims(self, store: Store, changed: list[Claim]) -> None:
        """Also while it is granted: its session may take that up."""
        fill_both(store)
        wait = held(store, "b", claims=BOTH)
        assert is_sent_to(store, changed, wait.ticket) == tuple(BOTH)
        store.release("y", DISK)
        store.release("a", claim())
        assert is_sent_to(store, changed, wait.ticket) == tuple(BOTH)
        assert store.ask(S).granted == nonces(wait)
        token = store.snapshot("disk").holders[0].token
        assert admitted(store, BOTH, "b2", came_back(wait.ticket)).token == token

    @changes
    def test_a_task_in_transit_keeps_its_claims(self, store: Store, changed: list[Claim]) -> None:
        fill_both(store)
        ticket = refused(store, BOTH, "b", Wait(Kind.REQUEUE)).ticket
        assert is_sent_to(store, changed, ticket) == tuple(BOTH)

    @changes
    def test_a_task_that_was_sent_keeps_its_claims(
        self, store: Store, changed: list[Claim]
    ) -> None:
        """Its message is all there is of it, and takes up the grant; before `sent` was called, too."""
        fill_both(store)
        ticket = parked(store, BOTH, "b")
        store.release("y", DISK)
        grants = released(store, "a", claim())
        assert is_sent_to(store, changed, ticket) == tuple(BOTH)
        store.sent(grants)
        assert is_sent_to(store, changed, ticket) == tuple(BOTH)
        permit = admitted(store, BOTH, "b2", came_back(ticket, Kind.PARK))
        assert permit.token == grants[0].token
        store.release("b2", BOTH)
        assert list(store.resources()) == []

    @changes
    def test_a_task_whose_wait_has_ended_keeps_its_claims(
        self, store: Store, changed: list[Claim]
    ) -> None:
        """E12: its message is to be sent, and was delivered before it is reported as sent."""
        fill_both(store)
        ticket = named(store, "b", claims=BOTH)
        (grant,) = store.take(store.end(["b"]))
        assert is_sent_to(store, changed, ticket) == tuple(BOTH)
        assert refused(store, BOTH, "b2", came_back(ticket)).ticket == ticket
        store.sent([grant])
        assert store.snapshot("api").waiting == 1

    def test_a_message_without_our_header_keeps_its_claims(self, store: Store) -> None:
        """Only the record of its messages knows the ticket."""
        fill_both(store)
        first = store.acquire(BOTH, "b", Wait(Kind.REQUEUE), FIRST)
        assert isinstance(first, Refusal)
        assert is_sent_to(store, claim(2, weight=2), None, AGAIN) == tuple(BOTH)

    @pytest.mark.parametrize("header", [True, False])
    def test_what_is_told_ends_a_wait_that_could_never_run(
        self, store: Store, *, header: bool
    ) -> None:
        """A deploy lowered limit and weight together; then its task gets the new claims, at its old place."""
        old, new = claim(4, weight=4), claim(2, weight=2)
        admitted(store, old, "a")
        first = store.acquire(old, "b", Wait(Kind.REQUEUE), FIRST)
        assert isinstance(first, Refusal)
        wait = Wait(Kind.REQUEUE, first.ticket if header else None)
        with pytest.raises(OtherClaims) as told:
            store.acquire(new, "b2", wait, AGAIN)
        store.release(told.value.ticket, told.value.claims)
        again = store.acquire(new, "b2", wait, AGAIN)
        assert isinstance(again, Refusal)
        assert again.ticket == first.ticket
        store.release("a", old)
        assert isinstance(store.acquire(new, "b3", wait, AGAIN), Permit)

    def test_a_caller_that_would_not_wait_leaves_the_wait_as_it_is(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        answer = store.acquire(claim(), "b", holding(S), FIRST)
        assert isinstance(answer, Refusal)
        store.release("a", claim())
        with pytest.raises(OtherClaims):
            store.acquire(claim(2, weight=2), "b2", None, AGAIN)
        assert granted(store) == [answer.ticket]

    def test_the_order_and_the_limits_of_claims_are_no_change(self, store: Store) -> None:
        fill_both(store)
        ticket = parked(store, BOTH, "b")
        turned = claim(2, of="disk") + claim()
        assert refused(store, turned, "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        store.release("y", DISK)
        assert messages(released(store, "a", claim())) == [b"b"]

    @pytest.mark.parametrize("end", ["admitted", "given up", "timed out", "forgotten"])
    def test_a_wait_that_is_over_keeps_nothing(self, store: Store, clock: Clock, end: str) -> None:
        """Let another wait begin, with the claims that the task has by then."""
        store.set_limit(0, "api")
        ticket = refused(store, BOTH, "b", Wait(Kind.REQUEUE)).ticket
        assert ticket
        clock.advance(1)
        if end == "admitted":
            store.set_limit(None, "api")
            admitted(store, BOTH, "b2", came_back(ticket))
            store.release("b2", BOTH)
        elif end == "given up":
            store.release(ticket, BOTH)
        elif end == "timed out":
            assert why(store, BOTH, "b2", came_back(ticket, timeout=0.5)) is Reason.TIMED_OUT
        else:
            clock.advance(2 * LEASE)
            store.reap()
        admitted(store, DISK, "b3", came_back(ticket))

    @changes
    def test_a_message_for_other_claims_is_not_attached(
        self, store: Store, changed: list[Claim]
    ) -> None:
        """Its worker publishes it instead (P3), and the message that is here stays."""
        fill_both(store)
        ticket = parked(store, BOTH, "b")
        with pytest.raises(OtherClaims):
            store.attach(ticket, changed, b"b2")
        store.release("y", DISK)
        assert messages(released(store, "a", claim())) == [b"b"]

    @changes
    def test_a_wait_that_is_named_with_other_claims_is_elsewhere(
        self, store: Store, changed: list[Claim]
    ) -> None:
        """N4: another delivery of the task waits there."""
        fill_both(store)
        wait = held(store, "b", claims=BOTH)
        other = HeldWait(wait.ticket, tuple(changed))
        assert store.name(S, [other, wait]) == {wait.ticket: Standing.WAITS}
        assert store.name(S, [other]) == {wait.ticket: Standing.ELSEWHERE}
        assert sum(store.snapshot(each).waiting for each in ("api", "disk", "net")) == 1

    def test_other_claims_than_those_of_the_grant_prolong_nothing(
        self, store: Store, clock: Clock
    ) -> None:
        """Q4: its session names other claims."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S / 2)
        changed = HeldWait(wait.ticket, tuple(DISK))
        assert store.ask(S, begun=[changed]).granted == {wait.ticket.nonce}
        clock.advance(GRANT_S / 2)
        assert store.ask(S, begun=[changed]).granted == frozenset()
        store.reap()
        assert granted(store) == granted(store, "disk") == []

    def test_a_late_release_leaves_the_grant_of_a_message_that_was_sent(
        self, store: Store, clock: Clock
    ) -> None:
        """R6: the first holder's process reports its end."""
        fill_both(store)
        ticket = parked(store, BOTH, "b")
        store.release("y", DISK)
        store.sent(released(store, "a", claim()))
        store.release("b", BOTH)
        assert granted(store) == granted(store, "disk") == [ticket]
        clock.advance(TAKE_UP)
        assert reaped(store) == []
        assert list(store.resources()) == []

    def test_a_message_that_was_sent_comes_too_late(self, store: Store, clock: Clock) -> None:
        """A11, E7: its grant has ended at one resource, where others were; the wait was over with it."""
        fill_both(store)
        ticket = parked(store, BOTH, "b")
        store.release("y", DISK)
        store.sent(released(store, "a", claim()))
        clock.advance(TAKE_UP)
        admitted(store, DISK, "z")
        assert refused(store, BOTH, "b2", came_back(ticket)).ticket == ticket
        assert granted(store) == granted(store, "disk") == []
        assert attached(store, ticket, BOTH, b"b2") == []
        assert messages(released(store, "z", DISK)) == [b"b2"]
