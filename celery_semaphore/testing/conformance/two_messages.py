"""Test tasks that changed, and were parked again with their new claims while they waited with the old ones."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Kind
from .acquisition import admitted, came_back, claim, parked, refused
from .changed_tasks import DISK
from .grants import limited, messages, reaped
from .suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from ...core.store import Store
    from ...core.ticket import Ticket
    from ..clock import Clock


def parked_for_both(store: Store) -> Ticket:
    """Let one holder have each resource, and park a task for both of them."""
    admitted(store, claim(), "a")
    admitted(store, DISK, "d")
    return parked(store, claim() + DISK, "b")


class TwoMessages(Suite):
    def test_of_two_messages_the_one_that_is_granted_is_sent(
        self, store: Store, clock: Clock
    ) -> None:
        """Park a task for both claims, and again for one; that grant ends before its message is taken."""
        admitted(store, claim() + DISK, "a")
        ticket = parked(store, claim() + DISK, "b")
        clock.advance(LEASE)
        assert store.attach(ticket, DISK, b"b2") == {"disk"}
        clock.advance(TAKE_UP)
        assert messages(limited(store, None, "api")) == [b"b"]
        assert reaped(store) == []

    def test_a_message_is_not_counted_once_another_of_its_task_is_granted(
        self, store: Store, clock: Clock
    ) -> None:
        """Park a task for both claims, and again for one, which is granted first; its message is not taken."""
        ticket = parked_for_both(store)
        store.attach(ticket, DISK, b"b2")
        store.release("d", DISK)
        assert [each.outbox for each in store.totals(["api", "disk"])] == [0, 1]
        clock.advance(1)
        store.set_limit(2, "disk")
        store.release("a", claim())
        assert [each.outbox for each in store.totals(["api", "disk"])] == [1, 0]

    def test_a_message_whose_wait_ended_is_sent_beside_one_that_is_granted(
        self, store: Store, clock: Clock
    ) -> None:
        """Park a task for both claims, and again for one, which ends before its message is taken."""
        ticket = parked_for_both(store)
        again = refused(store, DISK, "b2", came_back(ticket, Kind.PARK)).ticket
        assert again
        store.attach(again, DISK, b"b2", ends_in=1.0)
        clock.advance(1)
        store.release("d", DISK)
        outgoing = store.release("a", claim()).outgoing
        assert sorted(messages(store.take(outgoing | {"disk"}))) == [b"b", b"b2"]
