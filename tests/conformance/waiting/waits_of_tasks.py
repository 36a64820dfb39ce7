"""Test that the waits of a task are found by its id, in each of their states: W1 to W5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.task_wait import WAITS_OF_TASK, WaitState
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, named, parked, requeued
from tests.conformance.grants import released
from tests.conformance.sessions.session_calls import HOUR, S, held
from tests.conformance.suite import GRACE, LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.task_wait import TaskWait
    from celery_semaphore.testing.clock import Clock

BOTH = claim() + claim(of="disk")
FIRST = "first:1"  # the holder of the only permit
ODD = ("a b", "a\nb", "a%b", "ä", "a\x00b", "🦆", "[a", "(a", "a*", "-", "+", "'\\\"{,}")


def wait_of(store: Store, task_id: str = "t") -> TaskWait:
    """Return the only wait of this task."""
    (found,) = store.waits_of(task_id)
    return found


def state(store: Store, task_id: str = "t") -> WaitState:
    return wait_of(store, task_id).state


def nonces(store: Store, task_id: str = "t") -> list[str]:
    return [each.waiter.ticket.nonce for each in store.waits_of(task_id)]


class WaitsOfTasks(Suite):
    def test_an_unknown_task_has_none(self, store: Store) -> None:
        assert store.waits_of("t") == []
        admitted(store, claim(), "t:1")  # it runs
        held(store, "other:1")
        for task_id in ("t", "t:1", "", ":", "oth", "other:", "other:1"):
            assert store.waits_of(task_id) == []

    def test_it_is_found_in_line(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        wanted = claim(3, key="7", weight=2)
        admitted(store, claim(3, key="7", weight=3), FIRST)
        for holder in ("before:1", "t:1", "behind:1"):
            clock.advance(1)
            held(store, holder, claims=wanted)
        found = wait_of(store)
        assert (found.resource, found.claims) == ("api/7", tuple(wanted))
        assert (found.state, found.granted_until) == (WaitState.IN_LINE, None)
        (_, seen, _) = store.snapshot("api/7").waiters
        assert found.waiter == seen
        assert (seen.position, seen.weight, seen.kind, seen.reachable) == (1, 2, "requeue", True)
        clock.advance(LEASE + 1)  # its session sleeps: the next look puts it in transit
        assert not wait_of(store).waiter.reachable

    def test_it_is_found_parked(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        ticket = named(store, "t:1")
        found = wait_of(store)
        assert (found.waiter.ticket, found.waiter.kind) == (ticket, Kind.PARK)
        assert (found.state, found.waiter.reachable) == (WaitState.IN_LINE, True)

    def test_it_is_found_in_transit_as_long_as_it_is_kept(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), FIRST)
        requeued(store, claim(), "t:1")
        assert state(store) is WaitState.IN_TRANSIT
        assert not wait_of(store).waiter.reachable
        clock.advance(LEASE + 400)
        store.reap()
        assert store.waits_of("t") == []

    def test_it_is_found_set_aside(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(2), FIRST)
        held(store, "t:1", claims=claim(2, weight=2))
        store.set_limit(1, "api")
        assert state(store) is WaitState.SET_ASIDE
        assert wait_of(store).waiter.unsatisfiable

    def test_it_is_found_in_the_place_that_a_promotion_gave_it(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, claim(), FIRST)
        for holder in ("before:1", "t:1"):
            clock.advance(1)
            ticket = named(store, holder)
        assert wait_of(store).waiter.position == 1
        store.promote([ticket], "api")
        found = wait_of(store).waiter
        assert (found.position, found.ticket.priority, found.ticket.place) == (0, 255, ticket.place)

    def test_a_kept_wait_is_found_until_its_grant_is_taken_up(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, claim(), FIRST)
        ticket = held(store, "t:1", keeps=HOUR).ticket
        store.release(FIRST, claim())
        found = wait_of(store)
        assert (found.state, found.granted_until) == (WaitState.GRANTED, clock.now + GRANT_S)
        clock.advance(GRANT_S)  # no call has noticed it yet
        assert (state(store), wait_of(store).waiter.reachable) == (WaitState.IN_TRANSIT, False)
        admitted(store, claim(), "t:2", came_back(ticket))
        assert store.waits_of("t") == []

    def test_a_parked_wait_is_found_until_it_was_sent_in_vain(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, claim(), FIRST)
        named(store, "t:1")
        released(store, FIRST, claim())  # its message is lost
        assert (state(store), wait_of(store).waiter.reachable) == (WaitState.GRANTED, True)
        clock.advance(TAKE_UP)
        assert state(store) is WaitState.IN_LINE
        assert wait_of(store).waiter.reachable
        grants = store.take(store.reap())
        store.sent(grants)
        found = wait_of(store)
        assert (found.state, found.granted_until) == (WaitState.GRANTED, clock.now + TAKE_UP)
        assert not found.waiter.reachable  # its message is with the broker
        clock.advance(TAKE_UP)
        assert store.waits_of("t") == []

    def test_an_ended_wait_is_found_until_its_message_was_sent(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        named(store, "t:1")
        outgoing = store.end(["t:1"])
        assert state(store) is WaitState.ENDED
        grants = store.take(outgoing)
        assert state(store) is WaitState.ENDED  # until the broker has its message
        store.sent(grants)
        assert store.waits_of("t") == []

    def test_a_released_wait_is_not_found(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), FIRST)
        store.release(held(store, "t:1").ticket, claim())
        assert store.waits_of("t") == []

    def test_it_is_found_in_the_line_to_which_it_moved(self, store: Store) -> None:
        """H8: with all that it wants, wherever it stands."""
        admitted(store, claim(), FIRST)
        admitted(store, claim(of="disk"), "second:1")
        parked(store, BOTH, "t:1")
        assert (wait_of(store).resource, wait_of(store).claims) == ("api", tuple(BOTH))
        store.release(FIRST, claim())
        assert (wait_of(store).resource, wait_of(store).claims) == ("disk", tuple(BOTH))
        store.release("second:1", claim(of="disk"))
        assert state(store) is WaitState.GRANTED

    def test_the_claims_are_those_of_its_last_refusal(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        ticket = requeued(store, claim(6), "t:1")
        requeued(store, claim(5), "t:2", ticket=ticket)
        assert [each.claims for each in store.waits_of("t")] == [tuple(claim(5))]
        store.release(ticket, claim())
        assert store.waits_of("t") == []

    def test_the_claims_of_its_last_refusal_may_come_with_its_message(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        ticket = requeued(store, claim(6), "t:1")
        store.attach(ticket, claim(5), b"")
        assert [each.claims for each in store.waits_of("t")] == [tuple(claim(5))]

    def test_several_waits_of_one_task_are_found(self, store: Store, clock: Clock) -> None:
        """A sender may use an id twice; the oldest is first, and each is found as long as it lasts."""
        admitted(store, claim(), FIRST)
        tickets = []
        for holder in ("t:3", "t:1", "t:2"):
            clock.advance(1)
            tickets.append(parked(store, claim(), holder))
        tickets.append(parked(store, claim(), "t:0", priority=9))  # in the same moment as the last
        assert nonces(store) == ["t:3", "t:1", "t:0", "t:2"]
        store.release(tickets[1], claim())
        assert nonces(store) == ["t:3", "t:0", "t:2"]

    def test_at_most_so_many_are_found(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        for n in range(WAITS_OF_TASK + 1):
            requeued(store, claim(), f"t:{n}")
        assert len(store.waits_of("t")) == WAITS_OF_TASK

    def test_tasks_with_ids_that_begin_alike_are_others(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        holders = ("a:1", "a:b:1", "a:b:c:1", "ab:1", "a;:1", "b:a:1", "a::1")
        for holder in holders:
            requeued(store, claim(), holder)
        for holder in holders:
            assert nonces(store, holder.rpartition(":")[0]) == [holder]

    @pytest.mark.parametrize("task_id", ODD)
    def test_an_id_may_have_any_characters(self, store: Store, task_id: str) -> None:
        admitted(store, claim(), FIRST)
        requeued(store, claim(), f"{task_id}:1")
        requeued(store, claim(), "t:1")
        assert nonces(store, task_id) == [f"{task_id}:1"]

    def test_a_long_key_is_cut(self, store: Store) -> None:
        wanted = claim(key="k" * 1000)
        admitted(store, wanted, FIRST)
        requeued(store, wanted, "t:1")
        (found,) = wait_of(store).claims
        assert isinstance(found, Claim)
        assert (found.resource, len(found.key or "") < 200) == (wanted[0].resource, True)
        assert wait_of(store).resource == wanted[0].resource

    def test_a_grant_lasts_in_the_grace(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), FIRST)
        held(store, "t:1", keeps=HOUR)
        store.release(FIRST, claim())
        store.epoch = (store.epoch or 0) + 1  # a caller knows a newer epoch: another one begins
        clock.advance(GRANT_S)
        assert state(store) is WaitState.GRANTED
        clock.advance(GRACE)
        assert state(store) is WaitState.IN_TRANSIT

    def test_what_the_store_forgot_is_not_found(self, store: Store) -> None:
        admitted(store, claim(), FIRST)
        named(store, "t:1")
        self.forget(store)
        assert store.waits_of("t") == []
