"""Test the counts of messages that must be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.acquisition import admitted, claim, named, parked
from tests.conformance.grants import messages, reaped, released
from tests.conformance.suite import TAKE_UP, Suite
from tests.conformance.totals.totals import counted, line

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.totals import Totals
    from celery_semaphore.testing.clock import Clock


def age(totals: Totals) -> float | None:
    """Return the age of the oldest message; a token may be some microseconds ahead of the clock."""
    return None if totals.outbox_oldest is None else round(totals.outbox_oldest, 3)


class OutboxTotals(Suite):
    def test_a_message_to_send_is_no_wait(self, store: Store, clock: Clock) -> None:
        """Count no wait for one that was taken and has not been sent, either."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        parked(store, claim(), "c")
        outgoing = store.release("a", claim()).outgoing
        clock.advance(3)
        totals = counted(store)
        assert (totals.outbox, age(totals), totals.parked, totals.granted) == (
            1,
            3.0,
            1,
            1,
        )
        grants = store.take(outgoing)
        totals = counted(store)
        assert (totals.outbox, age(totals), totals.parked, totals.granted) == (
            0,
            None,
            1,
            1,
        )
        store.sent(grants)
        assert line(counted(store)) == (1, 0, 0, 0)

    def test_a_message_that_was_sent_too_late_waits_again(self, store: Store, clock: Clock) -> None:
        """E7: the entry in the outbox is void, and the next one has its own age."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        store.release("a", claim())
        clock.advance(TAKE_UP)
        totals = counted(store)
        assert (totals.outbox, totals.granted, totals.waiting) == (1, 0, 0)
        store.set_limit(0, "api")
        totals = counted(store)
        assert (totals.outbox, age(totals), totals.parked) == (0, None, 1)
        store.set_limit(1, "api")
        clock.advance(1)
        totals = counted(store)
        assert (totals.outbox, age(totals), totals.parked) == (1, 1.0, 0)

    def test_the_oldest_message_to_send(self, store: Store, clock: Clock) -> None:
        for holder in "ab":
            admitted(store, claim(2), holder)
        for holder in "cd":
            parked(store, claim(2), holder)
        for holder in "ab":
            store.release(holder, claim(2))
            clock.advance(2)
        totals = counted(store)
        assert (totals.outbox, age(totals)) == (2, 4.0)

    def test_a_message_that_was_sent_is_not_the_oldest(self, store: Store, clock: Clock) -> None:
        """Let its grant wait to be taken up."""
        for holder in "ab":
            admitted(store, claim(2), holder)
        for holder in "cd":
            parked(store, claim(2), holder)
        store.sent(released(store, "a", claim(2)))
        clock.advance(2)
        store.release("b", claim(2))
        clock.advance(1)
        totals = counted(store)
        assert (totals.granted, totals.outbox, age(totals)) == (2, 1, 1.0)

    def test_messages_of_ended_waits_have_no_age(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        named(store, "b", ends_in=1.0)
        named(store, "c")
        clock.advance(1)
        assert counted(store).parked == 2
        outgoing = store.reap()
        totals = counted(store)
        assert (totals.outbox, age(totals), totals.waiting) == (1, None, 1)
        assert messages(store.take(outgoing)) == [b"b"]
        assert (counted(store).outbox, line(counted(store))) == (0, (1, 0, 0, 0))
        store.end(["c"])
        clock.advance(TAKE_UP)
        assert sorted(messages(reaped(store))) == [b"b", b"c"]
        assert line(counted(store)) == (0, 0, 0, 0)

    def test_ended_and_granted_messages_together(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        named(store, "c")
        store.end(["c"])
        clock.advance(2)
        store.release("a", claim())
        clock.advance(1)
        totals = counted(store)
        assert (totals.outbox, age(totals), totals.granted) == (2, 1.0, 1)

    def test_an_ended_message_that_is_parked_again_waits(self, store: Store) -> None:
        """E3: only what `take` returns is to be sent."""
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        named(store, "c")
        store.end(["b", "c"])
        store.attach(ticket, claim(), b"b", name="b")
        totals = counted(store)
        assert (totals.outbox, line(totals)) == (1, (1, 0, 0, 0))
        assert messages(store.take(frozenset({"api"}))) == [b"c"]
