"""Test a message that was admitted and comes again, since its run did not end: it begins a new wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquire.brought import REMEMBERED, Task, WithTasks
from tests.conformance.acquire.changed_tasks import DISK
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, requeued
from tests.conformance.suite import LEASE

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

kinds = pytest.mark.parametrize("kind", [Kind.REQUEUE, Kind.PARK])
numbers = pytest.mark.parametrize("number", ["", "h1.1"])


def interrupted(task: Task, clock: Clock, number: str) -> Ticket:
    """Let the task wait, then run without an end, while another task waits; return the ticket that it had."""
    task.goes_back("h1")
    ticket = task.ticket
    assert ticket
    clock.advance(1)
    task.is_interrupted("h2", number, redelivered=True)
    clock.advance(1)
    admitted(task.store, task.claims, "busy")
    requeued(task.store, task.claims, "other")
    clock.advance(1)
    return ticket


def waits(
    task: Task, holder: str, number: str, header: Ticket | None, *, redelivered: bool = True
) -> Refusal:
    """Deliver the message again, with the header that it was sent with."""
    ticket = header if number else None
    wait = Wait(task.kind or Kind.REQUEUE, ticket)
    brought = MessageId(task.of, number, redelivered=redelivered, remember_for=REMEMBERED)
    answer = task.store.acquire(task.claims, holder, wait, brought)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.SATURATED
    assert answer.ticket
    return answer


class NewWaits(WithTasks):
    @kinds
    @numbers
    def test_it_stands_behind_those_that_wait_already(
        self, store: Store, clock: Clock, kind: Kind, number: str
    ) -> None:
        task = Task(store, kind)
        header = interrupted(task, clock, number)
        answer = waits(task, "h3", number, header)
        assert answer.ticket
        assert (answer.position, answer.waited) == (1, 0.0)
        assert answer.ticket.since == clock.now
        assert [each.position for each in store.snapshot("api").waiters] == [0, 1]

    @kinds
    @numbers
    def test_it_keeps_its_new_place(
        self, store: Store, clock: Clock, kind: Kind, number: str
    ) -> None:
        """Give it back, and deliver it again: its header still has the ticket of the wait that is over."""
        task = Task(store, kind)
        header = interrupted(task, clock, number)
        new = waits(task, "h3", number, header).ticket
        for n in range(4, 7):
            clock.advance(1)
            assert waits(task, f"h{n}", number, header).ticket == new
        assert new
        assert waits(task, "h8", "h1.1", new).ticket == new
        assert [each.position for each in store.snapshot("api").waiters] == [0, 1]

    @kinds
    @numbers
    def test_it_keeps_its_new_place_though_it_was_away_for_long(
        self, store: Store, clock: Clock, kind: Kind, number: str
    ) -> None:
        """Deliver it when its wait in transit is forgotten: only the record of its messages has the place."""
        task = Task(store, kind)
        header = interrupted(task, clock, number)
        new = waits(task, "h3", number, header).ticket
        clock.advance(2 * LEASE)
        store.reap()
        assert store.snapshot("api").waiting == 0
        admitted(store, task.claims, "busy again")
        assert waits(task, "h4", number, header).ticket == new

    @numbers
    def test_again_and_again(self, task: Task, clock: Clock, number: str) -> None:
        header, busy = interrupted(task, clock, number), "busy"
        for n in range(3, 6):
            clock.advance(1)
            answer = waits(task, f"h{n}", number, header)
            assert answer.ticket
            assert (answer.position, answer.ticket.since) == (1, clock.now)
            task.store.release(busy, task.claims)
            task.ticket, busy = header, f"busy {n}"
            task.is_interrupted(f"h{n} again", number, redelivered=True)
            admitted(task.store, task.claims, busy)

    @kinds
    def test_one_that_was_never_admitted_keeps_its_place(
        self, store: Store, clock: Clock, kind: Kind
    ) -> None:
        task = Task(store, kind)
        task.goes_back("h1")
        header = task.ticket
        assert header
        clock.advance(1)
        admitted(store, task.claims, "busy")
        for number in ("", "h1.1"):
            clock.advance(1)
            assert waits(task, f"h2{number}", number, header).ticket == header

    def test_one_whose_answer_was_lost_keeps_its_place(self, task: Task, clock: Clock) -> None:
        """Admit it and lose the answer: its worker asks again, for the same delivery."""
        task.goes_back("h1")
        header = task.ticket
        task.is_interrupted("h2", "h1.1")
        clock.advance(1)
        task.goes_back("h3", "h1.1")
        assert task.ticket == header

    def test_what_it_had_parked_before_is_no_message_of_it(
        self, store: Store, clock: Clock
    ) -> None:
        """Let it wait anew and park: of all its messages one runs."""
        task = Task(store, Kind.PARK)
        header = interrupted(task, clock, "h1.1")
        new = waits(task, "h3", "h1.1", header).ticket
        assert new
        store.attach(new, task.claims, b"anew")
        assert waits(task, "h4", "h1.1", header).ticket == new
        (grant,) = store.take(store.release("busy", task.claims).outgoing)
        store.sent([grant])
        assert (grant.payload, grant.ticket) == (b"anew", new)
        task.runs("h5", "h4.1", ticket=grant.ticket)
        assert task.is_refused("h6", "h1.1", ticket=header, redelivered=True) is Reason.COPY
        assert task.is_refused("h7", "", redelivered=True) is Reason.COPY

    def test_a_message_that_was_published_after_the_run_begins_anew(
        self, task: Task, clock: Clock
    ) -> None:
        """Publish a rejected message instead of returning it: it has another name, and no ticket."""
        interrupted(task, clock, "h1.1")
        brought = MessageId(task.of, "h2.1", remember_for=REMEMBERED)
        for n in range(3, 5):
            anew = task.store.acquire(task.claims, f"h{n}", Wait(Kind.PARK), brought)
            assert isinstance(anew, Refusal)
            assert anew.ticket
            assert (anew.position, anew.ticket.since) == (1, clock.now - (n - 3))
            clock.advance(1)

    @kinds
    @numbers
    def test_a_message_that_was_published_while_it_runs_begins_anew(
        self, store: Store, clock: Clock, kind: Kind, number: str
    ) -> None:
        """Refuse it as running, and publish it with the ticket of that answer; its run dies."""
        task = Task(store, kind)
        task.goes_back("h1")
        header = task.ticket if number else None
        clock.advance(1)
        assert isinstance(task.asks("h2", number, redelivered=True), Permit)
        clock.advance(1)
        running = task.asks("h3", number, ticket=header, redelivered=True)
        assert isinstance(running, Refusal)
        assert (running.reason, running.ticket) == (Reason.RUNNING, None)
        store.release("h2", task.claims)
        admitted(store, task.claims, "busy")
        requeued(store, task.claims, "other")
        clock.advance(1)
        anew = waits(task, "h4", "h3.1", running.ticket, redelivered=False)
        assert anew.ticket
        assert (anew.position, anew.ticket.since) == (1, clock.now)
        clock.advance(1)
        assert waits(task, "h5", "h3.1", running.ticket).ticket == anew.ticket
        assert waits(task, "h6", "h5.1", anew.ticket, redelivered=False).ticket == anew.ticket

    @kinds
    @pytest.mark.parametrize("redelivered", [True, False])
    def test_another_message_of_the_wait_that_is_over_begins_anew(
        self, store: Store, clock: Clock, kind: Kind, *, redelivered: bool
    ) -> None:
        """Deliver a message that was never admitted, whose header has the ticket of that wait."""
        task = Task(store, kind)
        header = interrupted(task, clock, "h1.1")
        anew = waits(task, "h3", "h1.2", header, redelivered=redelivered)
        assert anew.ticket
        assert (anew.position, anew.ticket.since) == (1, clock.now)
        assert anew.ticket.nonce == header.nonce
        clock.advance(1)
        assert waits(task, "h4", "h1.1", header).ticket == anew.ticket
        assert waits(task, "h5", "h1.2", header).ticket == anew.ticket

    def test_a_wait_that_began_after_that_run_goes_on(self, task: Task, clock: Clock) -> None:
        """Let the task change its claims, so that only the first resource knows of that run."""
        header, api = interrupted(task, clock, "h1.1"), task.claims
        task.claims = DISK
        task.is_interrupted("h3", "h1.1", ticket=header, redelivered=True)
        admitted(task.store, DISK, "busy")
        clock.advance(1)
        new = waits(task, "h4", "h1.1", header).ticket
        assert new
        assert new.since == clock.now
        clock.advance(1)
        task.store.release(new, DISK)
        task.claims = api
        assert waits(task, "h5", "h4.1", new, redelivered=False).ticket == new

    def test_its_priority_is_its_messages_own(self, store: Store, clock: Clock) -> None:
        task = Task(store)
        task.goes_back("h1")
        assert task.ticket
        promoted = replace(task.ticket, priority=255)
        clock.advance(1)
        task.is_interrupted("h2", "h1.1", ticket=promoted)
        admitted(store, task.claims, "busy")
        clock.advance(1)
        brought = MessageId(task.of, "h1.1", redelivered=True)
        anew = store.acquire(task.claims, "h3", Wait(Kind.PARK, promoted, priority=7), brought)
        assert isinstance(anew, Refusal)
        assert anew.ticket
        assert (anew.ticket.priority, anew.ticket.since) == (7, clock.now)

    @kinds
    @numbers
    def test_its_timeout_counts_no_run(
        self, store: Store, clock: Clock, kind: Kind, number: str
    ) -> None:
        """Admit it at once if there is room, and let it wait anew if there is none."""
        task = Task(store, kind)
        task.goes_back("h1")
        header = task.ticket
        timeout = Wait(kind, header if number else None, timeout=5.0)
        brought = MessageId(task.of, number, redelivered=True)
        for n in range(2, 4):
            permit = store.acquire(task.claims, f"h{n}", timeout, brought)
            assert isinstance(permit, Permit)
            clock.advance(10)
            store.release(f"h{n}", task.claims)
        admitted(store, task.claims, "busy")
        anew = store.acquire(task.claims, "h4", timeout, brought)
        assert isinstance(anew, Refusal)
        assert (anew.reason, anew.waited) == (Reason.SATURATED, 0.0)
        clock.advance(5)
        late = store.acquire(task.claims, "h5", timeout, brought)
        assert isinstance(late, Refusal)
        assert (late.reason, late.waited) == (Reason.TIMED_OUT, 5.0)

    @kinds
    def test_one_that_is_late_takes_what_is_free(
        self, store: Store, clock: Clock, kind: Kind
    ) -> None:
        """Deliver it after its timeout, as a wait that ended is: it runs if there is room, else it times out."""
        admitted(store, claim(), "a")
        waiting = parked if kind is Kind.PARK else requeued
        ticket = waiting(store, claim(), "b", timeout=10.0)
        clock.advance(11)
        late = came_back(ticket, kind, timeout=10.0)
        assert refused(store, claim(), "b2", late).reason is Reason.TIMED_OUT
        store.release("a", claim())
        admitted(store, claim(), "b3", late)
