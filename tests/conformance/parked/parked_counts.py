"""Test how many parked messages a store says that it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.acquisition import admitted, claim, named, requeued
from tests.conformance.grants import released
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store

MANY = 1000


def count(store: Store, most: int = MANY) -> int:
    return store.durability(most).parked


class ParkedCounts(Suite):
    def test_messages_count_while_they_are_parked(self, store: Store) -> None:
        """Count those of all resources, until each was sent or has ended; a wait without a message does not count."""
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk", key="k"), "b")
        requeued(store, claim(), "c")
        assert count(store) == 0
        named(store, "d")
        named(store, "e")
        named(store, "f", claims=claim(of="disk", key="k"))
        assert count(store) == 3
        (grant,) = released(store, "b", claim(of="disk", key="k"))
        store.sent([grant])
        assert count(store) == 2
        outgoing = store.end(["d"])
        store.sent(store.take(outgoing))
        assert count(store) == 1

    def test_a_message_that_is_parked_again_counts_once(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = named(store, "b")
        store.attach(ticket, claim(), b"again", name="b")
        assert count(store) == 1

    def test_at_most_as_many_are_counted_as_were_asked_for(self, store: Store) -> None:
        """Return that many, or more where counting all costs the same."""
        admitted(store, claim(), "a")
        for holder in "bcde":
            named(store, holder)
        assert count(store, 2) >= 2
