"""Test the messages that are attached to tickets, and how long they stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, requeued
from tests.conformance.grants import attached, limited, messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

PARK = Wait(Kind.PARK)


class Messages(Suite):
    def test_any_bytes_can_be_parked(self, store: Store) -> None:
        admitted(store, claim(), "a")
        for holder in "bc":
            ticket = refused(store, claim(), holder, PARK).ticket
            assert ticket
            store.attach(ticket, claim(), b"\x00\xff\r\n" + bytes(range(256)) * 1000)
        (grant,) = released(store, "a", claim())
        assert grant.payload == b"\x00\xff\r\n" + bytes(range(256)) * 1000

    def test_an_empty_message_is_a_message(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", PARK).ticket
        assert ticket
        assert not store.attach(ticket, claim(), b"")
        assert messages(released(store, "a", claim())) == [b""]

    def test_attaching_can_grant_at_once(self, store: Store) -> None:
        """Release the permit between the refusal and the attaching."""
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", PARK).ticket
        assert ticket
        assert not store.release("a", claim()).outgoing
        assert store.attach(ticket, claim(), b"b")
        assert messages(attached(store, ticket, claim(), b"b")) == [b"b"]  # the answer was lost
        assert store.snapshot("api").waiting == 0

    def test_attaching_leaves_a_ticket_where_it_was_refused(self, store: Store) -> None:
        both = claim() + claim(of="disk")
        admitted(store, claim(of="disk"), "a")
        parked(store, both, "b")
        assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (0, 1)
        assert messages(released(store, "a", claim(of="disk"))) == [b"b"]

    def test_attaching_again_changes_nothing(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        assert not store.attach(ticket, claim(), b"b")
        assert store.snapshot("api").waiting == 1
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_a_ticket_without_message_is_never_granted(self, store: Store) -> None:
        admitted(store, claim(), "a")
        refused(store, claim(), "b", PARK)
        parked(store, claim(), "c")
        assert messages(released(store, "a", claim())) == [b"c"]

    def test_a_ticket_without_message_is_dropped(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        refused(store, claim(), "b", Wait(Kind.PARK, longest=1.0))
        clock.advance(LEASE - 1)
        store.renew([permit])
        assert store.snapshot("api").waiting == 1
        clock.advance(2)
        store.reap()
        assert store.snapshot("api").waiting == 0

    def test_a_message_is_never_dropped(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        parked(store, claim(), "b")
        clock.advance(1000 * LEASE)
        assert not store.reap()
        assert store.snapshot("api").waiting == 1
        assert messages(limited(store, None, "api")) == [b"b"]

    def test_a_message_attached_late_can_be_granted(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = refused(store, claim(), "b", PARK).ticket
        assert ticket
        store.release("a", claim())
        clock.advance(10 * LEASE)
        store.reap()
        assert messages(attached(store, ticket, claim(), b"b")) == [b"b"]

    def test_a_message_attached_late_is_kept(self, store: Store, clock: Clock) -> None:
        """Attach the message after its wait was dropped; the ticket still tells its place."""
        store.set_limit(0, "api")
        ticket = refused(store, claim(), "b", PARK).ticket
        assert ticket
        clock.advance(10 * LEASE)
        store.reap()
        parked(store, claim(), "c")
        assert not store.attach(ticket, claim(), b"b")
        assert store.snapshot("api").waiters[0].ticket == ticket
        assert messages(limited(store, None, "api")) == [b"b"]

    def test_coming_back_unasked_keeps_the_message(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_who_would_requeue_now_has_its_message(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        requeued(store, claim(), "b2", ticket=ticket)
        assert not store.release("a", claim()).outgoing

    def test_who_parked_is_not_released_with_its_delivery(self, store: Store) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.release("b", claim())
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_coming_back_unasked_keeps_its_end(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        ticket = named(store, "b", 10.0)
        assert refused(store, claim(), "b2", came_back(ticket, Kind.PARK)).ticket == ticket
        clock.advance(10)
        assert messages(reaped(store)) == [b"b"]

    def test_coming_back_unasked_keeps_its_name(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        refused(store, claim(), "b2", came_back(ticket, Kind.PARK))
        assert store.end(["b"]) == {"api"}

    def test_what_was_granted_does_not_end(self, store: Store, clock: Clock) -> None:
        """Grant it just in time: its message is on its way, and is not sent once more."""
        admitted(store, claim(), "a")
        named(store, "b", 10.0)
        clock.advance(9)
        assert messages(released(store, "a", claim())) == [b"b"]
        clock.advance(1)
        assert reaped(store) == []

    def test_a_grant_that_nobody_took_is_not_sent(self, store: Store, clock: Clock) -> None:
        """Let a grant end in the outbox; its message is back in the line."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        outgoing = store.release("a", claim()).outgoing
        store.set_limit(0, "api")
        clock.advance(TAKE_UP)
        store.reap()
        assert store.take(outgoing) == []
        assert store.snapshot("api").waiting == 1
        assert messages(limited(store, None, "api")) == [b"b"]

    def test_sent_too_late_keeps_no_later_grant(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        late = released(store, "a", claim())
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"b"]
        clock.advance(TAKE_UP - 1)
        store.sent(late)
        clock.advance(1)
        assert messages(reaped(store)) == [b"b"]

    def test_an_ended_one_that_nobody_took_is_found_by_reaping(self, store: Store) -> None:
        """Let the process that ended it die before it takes the message."""
        admitted(store, claim(), "a")
        named(store, "b")
        store.end(["b"])
        assert messages(reaped(store)) == [b"b"]


def named(store: Store, holder: str, ends_in: float | None = None) -> Ticket:
    """Return the ticket of a parked message that can be ended, or ends by itself."""
    ticket = refused(store, claim(), holder, PARK).ticket
    assert ticket
    assert not store.attach(ticket, claim(), holder.encode(), name=holder, ends_in=ends_in)
    return ticket
