"""Test a message that the broker delivers again: while its task runs, after that has ended, or died."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquire.brought import REMEMBERED, Task, WithTasks
from tests.conformance.acquisition import admitted, claim, refused, requeued
from tests.conformance.suite import GRACE, LEASE

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

AGAIN: dict[str, Any] = {"redelivered": True}


def begun(task: Task, holder: str, *args: Any, **how: Any) -> MessageId:
    """Admit the task; return the message by which it came."""
    answer = task.asks(holder, *args, **how)
    assert isinstance(answer, Permit), answer
    return task.brought


class RepeatedDeliveries(WithTasks):
    @pytest.mark.parametrize("limit", [1, 2])
    @pytest.mark.parametrize("others", [0, 1, 2])
    def test_a_message_does_not_run_beside_itself(
        self, store: Store, task: Task, limit: int, others: int
    ) -> None:
        """Keep it while its first run goes on, then drop it, whether or not other tasks wait."""
        task.claims = claim(limit)
        first = begun(task, "task:1")
        for holder in "abc"[: others + limit - 1]:
            store.acquire(task.claims, holder)
        for holder in "xyz"[:others]:
            requeued(store, task.claims, holder)
        for holder in ("task:2", "task:3"):
            answer = task.asks(holder, **AGAIN)
            assert isinstance(answer, Refusal)
            assert (answer.reason, answer.ticket) == (Reason.RUNNING, None)
            assert 0 < answer.retry_after <= LEASE / 3
        assert store.snapshot("api").waiting == others
        store.release("task:1", task.claims, first)
        assert task.is_refused("task:4", **AGAIN) is Reason.COPY
        assert task.is_refused("task:5", **AGAIN) is Reason.COPY

    def test_nor_does_one_that_waited(self, task: Task) -> None:
        task.goes_back("h1")
        second = begun(task, "h2", "h1.1")
        assert task.is_refused("h3", "h1.1", **AGAIN) is Reason.RUNNING
        assert task.store.snapshot("api").waiting == 0
        task.store.release("h2", task.claims, second)
        assert task.is_refused("h4", "h1.1", **AGAIN) is Reason.COPY
        assert task.is_refused("h5", "h3.1") is Reason.COPY

    def test_nor_does_one_that_would_not_wait(self, store: Store) -> None:
        task = Task(store, kind=None)
        first = begun(task, "task:1")
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        store.release("task:1", task.claims, first)
        assert task.is_refused("task:3", **AGAIN) is Reason.COPY

    def test_it_is_asked_again_when_the_lease_of_its_run_ends(
        self, task: Task, clock: Clock
    ) -> None:
        begun(task, "task:1")
        clock.advance(LEASE - 1)
        answer = task.asks("task:2", **AGAIN)
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.retry_after) == (Reason.RUNNING, 1.0)
        clock.advance(1)
        task.runs("task:3", **AGAIN)

    def test_a_run_is_no_wait(self, task: Task, clock: Clock) -> None:
        """Deliver it when it has run for longer than it may wait: it is asked again, but not all the time."""
        task.goes_back("h1")
        begun(task, "h2", "h1.1")
        clock.advance(10)
        brought = MessageId(task.of, "h1.1", redelivered=True)
        wait = Wait(Kind.REQUEUE, task.ticket, timeout=5.0)
        answer = task.store.acquire(task.claims, "h3", wait, brought)
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.retry_after) == (Reason.RUNNING, LEASE / 3)

    def test_its_end_is_noted_when_its_permit_goes_to_the_next(
        self, store: Store, task: Task
    ) -> None:
        store.ask("session")
        first = begun(task, "task:1")
        next_one = refused(store, task.claims, "next", Wait(Kind.REQUEUE, session="session"))
        assert next_one.ticket
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        handed = store.release("task:1", task.claims, first)
        assert handed.granted == {next_one.ticket.nonce}
        assert task.is_refused("task:3", **AGAIN) is Reason.COPY

    def test_it_runs_if_its_run_did_not_end(self, task: Task) -> None:
        begun(task, "task:1")
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        task.store.release("task:1", task.claims)
        task.runs("task:3", **AGAIN)
        assert task.is_refused("task:4", **AGAIN) is Reason.COPY

    def test_what_ended_before_it_came_runs_again(self, task: Task) -> None:
        """Note nothing of a task that ran at once: it is delivered at least once, as by Celery alone."""
        task.runs("task:1")
        task.runs("task:2", **AGAIN)

    def test_a_retry_is_another_task(self, store: Store, task: Task) -> None:
        """Let the run end in a retry, which runs when the first message comes again."""
        retried = MessageId("task:1", remember_for=REMEMBERED)
        assert isinstance(store.acquire(task.claims, "task:1", None, retried), Permit)
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        store.release("task:1", task.claims, retried)
        task.runs("task:3", **AGAIN)

    @pytest.mark.parametrize("holder", ["tas:1", "task2:1", "task:0:1", "task"])
    def test_other_tasks_do_not_keep_it(self, store: Store, task: Task, holder: str) -> None:
        task.claims = claim(2)
        admitted(store, task.claims, holder)
        task.runs("task:2", **AGAIN)

    def test_a_run_longer_than_the_record_is_kept(self, task: Task, clock: Clock) -> None:
        first = task.asks("task:1")
        assert isinstance(first, Permit)
        brought = task.brought
        for n in range(2 * int(REMEMBERED // LEASE)):
            clock.advance(LEASE - 1)
            task.store.renew([first])
            if not n % 50:
                assert task.is_refused(f"task:1{n}", **AGAIN) is Reason.RUNNING
        task.store.release("task:1", task.claims, brought)
        assert task.is_refused("task:2", **AGAIN) is Reason.COPY

    def test_a_run_that_the_store_forgot_is_found_again(self, task: Task, clock: Clock) -> None:
        first = task.asks("task:1")
        assert isinstance(first, Permit)
        brought = task.brought
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        self.forget(task.store)
        task.store.renew([first])
        clock.advance(GRACE)
        assert task.is_refused("task:3", **AGAIN) is Reason.RUNNING
        task.store.release("task:1", task.claims, brought)
        assert task.is_refused("task:4", **AGAIN) is Reason.COPY

    def test_it_runs_on_several_resources(self, task: Task) -> None:
        task.claims = claim(2) + claim(2, of="disk")
        first = begun(task, "task:1")
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        task.store.release("task:1", task.claims, first)
        assert task.is_refused("task:3", **AGAIN) is Reason.COPY

    def test_a_new_task_of_the_same_id_runs(self, task: Task, other: Task) -> None:
        first = begun(task, "task:1")
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        task.store.release("task:1", task.claims, first)
        other.runs("task:3")
        other.runs("task:4", **AGAIN)

    def test_the_holder_of_a_noted_run_leaves_nothing_behind(self, task: Task) -> None:
        """Release it, and let a holder of another task have its row."""
        first = begun(task, "task:1")
        assert task.is_refused("task:2", **AGAIN) is Reason.RUNNING
        task.store.release("task:1", task.claims, first)
        other = Task(task.store, of="other:0")
        other.runs("other:1")
        other.runs("other:2", **AGAIN)
