"""Test how a session names waits that have a grant: one that lasts, or one that has ended."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Kind
from ...core.session import GRANT_S, HeldWait, Standing
from .acquisition import admitted, came_back, claim, parked, refused
from .calling import BOTH, granted
from .changed_tasks import DISK
from .grants import attached, messages, reaped, released
from .session_calls import HOUR, S, T, forgotten_after, held, nonces, reachable
from .suite import GRACE, TAKE_UP, Suite

if TYPE_CHECKING:
    from ...core.store import Store
    from ...core.ticket import Ticket
    from ..clock import Clock


def parked_beside_a_held_one(store: Store) -> tuple[HeldWait, Ticket]:
    """Let a session hold one delivery of a task at "api", while another one is parked and granted at "disk".

    The session slept meanwhile, so its wait is in transit.
    """
    store.ask(S)
    admitted(store, claim(), "a")
    wait = held(store, "b", claims=DISK + claim())
    admitted(store, DISK, "y")
    ticket = refused(store, DISK, "b2", came_back(wait.ticket, Kind.PARK)).ticket
    assert ticket
    assert attached(store, ticket, DISK, b"b2") == []
    store.sleep(S)
    store.release("unknown", claim())
    assert reachable(store) == []
    store.release("y", DISK)
    assert granted(store, "disk") == [ticket]
    store.ask(S)
    return wait, ticket


def granted_with_two_records(store: Store) -> HeldWait:
    """Let a session hold two deliveries of a task, and grant it a permit of both resources."""
    of_disk = claim(2, of="disk")
    store.ask(S)
    admitted(store, claim(), "a")
    wait = held(store, "b", claims=of_disk + claim())
    admitted(store, of_disk, "y")
    held(store, "b2", claims=claim(2, of="disk", weight=2), ticket=wait.ticket)
    store.release("a", claim())
    assert granted(store) == granted(store, "disk") == [wait.ticket]
    return wait


class NamedGrants(Suite):
    def test_a_granted_wait_that_is_named_waits(self, store: Store) -> None:
        """N3: it keeps its grant."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert store.ask(S).granted == nonces(wait)
        assert granted(store) == [wait.ticket]

    def test_a_granted_wait_that_was_in_transit_is_named(self, store: Store) -> None:
        """N3: it was named asleep, and then granted with a record in another line."""
        admitted(store, DISK, "a")
        ticket = parked(store, DISK + claim(), "b")
        wait = HeldWait(ticket, tuple(claim()))
        store.name(S, [wait])
        store.release("a", DISK)
        store.ask(S)
        assert store.name(S, [wait]) == {ticket: Standing.WAITS}
        assert granted(store) == granted(store, "disk") == [ticket]

    def test_a_wait_whose_grant_has_ended_stands_again(self, store: Store, clock: Clock) -> None:
        """N2: no call has noticed the end yet; noticing it would put the wait in transit."""
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=tuple(BOTH))
        store.release("a", BOTH)
        clock.advance(GRANT_S)
        assert store.ask(S).granted == frozenset()
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert reachable(store) == [wait.ticket]
        store.reap()
        assert store.ask(S).granted == nonces(wait)
        assert granted(store) == granted(store, "disk") == [wait.ticket]

    def test_no_answer_tells_a_grant_that_has_ended(self, store: Store, clock: Clock) -> None:
        """Q3: even if the clock steps back before its end."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        clock.advance(GRANT_S)
        store.ask(S)
        store.name(S, [wait])
        clock.advance(-GRANT_S / 2)
        assert store.ask(S).granted == frozenset()

    def test_a_session_that_sleeps_names_a_grant_that_has_ended(
        self, store: Store, clock: Clock
    ) -> None:
        """Put the wait in transit, and keep its place from now on."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b", keeps=HOUR)
        store.release("a", claim())
        store.sleep(S)
        clock.advance(HOUR)
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.reachable, waiter.due) == (False, clock.now)
        forgotten_after(HOUR, store, clock)

    def test_what_is_free_of_the_other_claim_is_handed_on(self, store: Store, clock: Clock) -> None:
        """E7 ends the grant there, after the grace, although the wait itself can be granted nothing."""
        store.ask(S)
        store.ask(T)
        admitted(store, BOTH, "a")
        wait = held(store, "b", claims=tuple(BOTH))
        clock.advance(0.001)
        other = held(store, "c", claims=DISK, session=T)
        store.release("a", BOTH)
        store.set_limit(0, "api")
        clock.advance(GRANT_S + 1)
        self.remember(store)()
        store.ask(S)
        store.ask(T)
        store.reap()
        store.name(S, [wait])
        store.name(T, [other])
        clock.advance(GRACE)
        store.ask(T)
        store.reap()
        assert granted(store, "disk") == [other.ticket]

    def test_a_wait_in_transit_takes_no_grant_from_a_message(
        self, store: Store, clock: Clock
    ) -> None:
        """N2: another delivery of its task is parked elsewhere, and has a grant, which lasts."""
        wait, ticket = parked_beside_a_held_one(store)
        assert store.name(S, [wait]) == {ticket: Standing.WAITS}
        assert granted(store, "disk") == [ticket]
        store.sleep(S)  # its worker is gone
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"b2"]

    def test_a_message_whose_grant_has_ended_too_is_sent(self, store: Store, clock: Clock) -> None:
        """E7: only a look at its own line puts it back there."""
        wait, _ = parked_beside_a_held_one(store)
        clock.advance(TAKE_UP)
        store.ask(S)
        store.name(S, [wait])
        store.sleep(S)
        assert messages(reaped(store) + released(store, "unknown", DISK)) == [b"b2"]

    def test_a_wait_in_transit_takes_no_grant_from_its_other_record(self, store: Store) -> None:
        """N2: both deliveries are the session's."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b", claims=DISK + claim())
        admitted(store, DISK, "y")
        held(store, "b2", claims=DISK, ticket=wait.ticket)
        store.sleep(S)
        store.release("unknown", claim())
        store.ask(S)
        store.release("y", DISK)
        assert store.ask(S).granted == nonces(wait)
        store.name(S, [wait])
        assert granted(store, "disk") == [wait.ticket]
        assert store.ask(S).granted == nonces(wait)

    def test_a_wait_with_two_records_is_granted_again(self, store: Store, clock: Clock) -> None:
        """E7 puts the other record in transit; where the wait moves there it stands in line once it is named."""
        wait = granted_with_two_records(store)
        clock.advance(GRANT_S)
        store.ask(S)
        store.name(S, [wait])
        store.set_limit(0, "disk")
        store.reap()
        store.release("unknown", claim() + DISK)
        store.set_limit(None, "disk")
        store.release("y", claim(2, of="disk"))
        store.ask(S)
        store.name(S, [wait])
        store.reap()
        assert store.ask(S).granted == nonces(wait)
