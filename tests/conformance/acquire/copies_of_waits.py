"""Test what is remembered of a task's messages, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Kind
from tests.conformance.acquire.brought import REMEMBERED, Task, WithTasks
from tests.conformance.acquisition import admitted, claim
from tests.conformance.suite import LEASE

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class CopiesOfWaits(WithTasks):
    def test_holders_whose_answers_were_lost_did_not_run(self, task: Task) -> None:
        """Admit holders that never get the answer, so that their messages go back."""
        task.goes_back("h1")
        task.is_interrupted("h2", "h1.1")
        task.runs("h4", "h3.1")
        assert task.is_refused("h5", "h2.1") is Reason.COPY
        assert task.is_refused("h6", "h1.1", redelivered=True) is Reason.COPY

    def test_an_acquire_that_comes_late_ends_no_task(self, task: Task, clock: Clock) -> None:
        """Deliver an acquire after its message went back twice; no process is left that releases it."""
        task.goes_back("h1")
        task.claims = claim(2)
        assert isinstance(task.asks("h2", "h1.1"), Permit)
        assert task.is_refused("h4", "h3.1") is Reason.RUNNING
        clock.advance(LEASE)
        task.runs("h5", "h4.1")

    def test_a_message_without_its_ticket_finds_it(self, task: Task) -> None:
        """Send the message back without a ticket, because that answer was lost as well."""
        task.goes_back("h1")
        made, task.ticket = task.ticket, None
        task.goes_back("h2", "h1.1")
        assert task.ticket == made

    def test_a_task_id_may_be_used_again(self, task: Task, other: Task) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        other.runs("h3")
        other.runs("h4", redelivered=True)

    def test_even_where_somebody_waits(self, task: Task, other: Task) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        Task(task.store, of="task:1").goes_back("h5")
        other.runs("h3")
        other.runs("h4", redelivered=True)

    def test_even_by_a_task_that_waits(self, task: Task, other: Task, clock: Clock) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        clock.advance(1)
        other.goes_back("h3")
        assert other.ticket != task.ticket
        other.runs("h4", "h3.1")
        # A late message of the first task changes nothing for the other.
        task.runs("h5", "h1.2")
        assert other.is_refused("h6", redelivered=True) is Reason.COPY

    def test_what_is_left_of_an_earlier_task_goes_back(
        self, task: Task, other: Task, clock: Clock
    ) -> None:
        """Refuse it under its own ticket; the record of the later task stays as it is."""
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        clock.advance(1)
        other.goes_back("h3")
        other.runs("h4", "h3.1")
        task.goes_back("h5", "h1.2")
        assert other.is_refused("h6", redelivered=True) is Reason.COPY

    def test_other_tasks_are_other_tasks(self, task: Task) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        retried = MessageId("task:1", redelivered=True)
        assert isinstance(task.store.acquire(task.claims, "h3", None, retried), Permit)

    def test_copies_are_recognised_for_as_long_as_was_asked(self, task: Task, clock: Clock) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        clock.advance(REMEMBERED - 1)
        assert task.is_refused("h3", redelivered=True) is Reason.COPY
        clock.advance(2)
        task.runs("h4", redelivered=True)

    def test_a_wait_is_remembered_while_it_lasts(self, task: Task, clock: Clock) -> None:
        task.goes_back("h1")
        for n in range(2, 5):
            clock.advance(REMEMBERED / 2)
            task.goes_back(f"h{n}", f"h{n - 1}.1")
        task.runs("h9", redelivered=True)
        assert task.is_refused("h8", "h4.1") is Reason.COPY

    def test_a_task_that_would_not_wait_waits_for_the_grace(
        self, store: Store, clock: Clock
    ) -> None:
        task = Task(store, kind=None)
        task.runs("h0")
        self.forget(store)
        assert task.is_refused("h1") is Reason.RECOVERING
        clock.advance(LEASE)
        task.runs("h2", "h1.1")
        assert task.is_refused("h3", redelivered=True) is Reason.COPY

    def test_that_it_went_back_in_the_grace_is_known(self, store: Store, clock: Clock) -> None:
        """Redeliver a task that was interrupted; the message that it is published as is no copy."""
        task = Task(store, kind=None)
        task.runs("h0")
        known = store.epoch
        clock.advance(1)
        self.forget(store)
        store.epoch = None
        task.is_interrupted("h2", "h1.1")
        store.epoch = known  # a client that knows the old epoch comes later
        assert task.is_refused("h3", "h1.1", redelivered=True) is Reason.RECOVERING
        clock.advance(LEASE)
        task.runs("h4", "h3.1")

    def test_a_copy_stands_in_no_line(self, task: Task) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        admitted(task.store, task.claims, "other")
        answer = task.asks("h3", ticket=task.ticket, redelivered=True)
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.ticket) == (Reason.COPY, None)
        assert task.store.snapshot("api").waiting == 0

    def test_a_repeated_acquire_of_the_admitted_one_is_answered_alike(self, task: Task) -> None:
        task.goes_back("h1")
        first = task.asks("h2", "h1.1")
        assert task.asks("h2", "h1.1") == first

    def test_what_was_handed_to_a_copy_goes_on(self, store: Store) -> None:
        """Attach a message once more after another one ran the task."""
        task = Task(store, Kind.PARK)
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        admitted(store, task.claims, "busy")
        assert task.ticket
        assert not store.attach(task.ticket, task.claims, b"copy")
        store.sent(store.take(store.release("busy", task.claims).outgoing))
        assert store.snapshot("api").occupied == 1
        answer = task.asks("h3", "h9.1")
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.occupied) == (Reason.COPY, 0)
        assert store.snapshot("api").occupied == 0
        admitted(store, task.claims, "next")
