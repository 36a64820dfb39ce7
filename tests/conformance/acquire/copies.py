"""Test copies: a crash may leave several messages of a task, and only one may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from tests.conformance.acquire.brought import Task, WithTasks
from tests.conformance.acquisition import admitted, claim
from tests.conformance.suite import LEASE

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Copies(WithTasks):
    def test_the_message_that_went_back_runs(self, task: Task) -> None:
        task.goes_back("h1")
        task.runs("h2", "h1.1")

    def test_the_first_message_is_a_copy_though_nobody_knew_of_the_later_one(
        self, store: Store, task: Task
    ) -> None:
        admitted(store, task.claims, "before")
        store.release("before", task.claims)
        task.runs("h2", "h1.1")
        assert task.is_refused("h1", redelivered=True) is Reason.COPY

    @pytest.mark.parametrize("blank", [" ", "\n", "  é "])
    def test_a_message_may_have_any_name(self, task: Task, blank: str) -> None:
        task.goes_back("h1")
        task.runs("h2", f"h1{blank}1")
        assert task.is_refused("h3", f"h1{blank}2") is Reason.COPY
        task.runs("h4", f"h1{blank}1")

    def test_a_copy_of_a_message_that_was_admitted_does_not_run(self, task: Task) -> None:
        """Redeliver a message: its worker published it anew, and was killed before it acknowledged the old one."""
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        assert task.is_refused("h3", redelivered=True) is Reason.COPY

    def test_nor_does_it_while_the_other_runs(self, task: Task) -> None:
        task.goes_back("h1")
        task.claims = claim(2)
        assert isinstance(task.asks("h2", "h1.1"), Permit)
        brought = task.brought
        answer = task.asks("h3", redelivered=True)
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.ticket) == (Reason.RUNNING, None)
        assert answer.retry_after > 0
        assert task.store.snapshot("api").waiting == 0
        task.store.release("h2", task.claims, brought)
        assert task.is_refused("h4", redelivered=True) is Reason.COPY

    def test_another_may_run_if_the_first_was_interrupted(self, task: Task) -> None:
        task.goes_back("h1")
        task.is_interrupted("h2", "h1.1")
        task.runs("h3", redelivered=True)
        assert task.is_refused("h4", "h1.1", redelivered=True) is Reason.COPY

    def test_another_may_run_if_the_first_died(self, task: Task, clock: Clock) -> None:
        """Run another message: it is unknown how far the first one came, and its message may be gone."""
        task.goes_back("h1")
        task.claims = claim(2)
        assert isinstance(task.asks("h2", "h1.1"), Permit)
        assert task.is_refused("h3", redelivered=True) is Reason.RUNNING
        clock.advance(LEASE)
        task.runs("h4", redelivered=True)

    def test_a_broker_may_not_tell_what_it_delivers_again(self, task: Task) -> None:
        """Deliver a running message again, unmarked: it waits, and what takes its place is a copy in the end."""
        task.goes_back("h1")
        assert isinstance(task.asks("h2", "h1.1"), Permit)
        brought = task.brought
        assert task.is_refused("h3", "h1.1") is Reason.SATURATED
        task.store.release("h2", task.claims, brought)
        assert task.is_refused("h4", "h3.1") is Reason.COPY

    def test_only_who_was_admitted_can_say_that_it_ran(self, task: Task) -> None:
        task.goes_back("h1")
        assert isinstance(task.asks("h2", "h1.1"), Permit)
        task.store.release("h3", task.claims, MessageId("task:0", "h1.2"))
        task.store.release("h3", task.claims, MessageId("task:0", "h1.1"))
        task.store.release("h2", task.claims, MessageId("task:0", redelivered=True))
        task.runs("h4", redelivered=True)

    def test_whichever_is_admitted_first_runs(self, task: Task) -> None:
        task.goes_back("h1")
        task.runs("h3", redelivered=True)
        assert task.is_refused("h2", "h1.1") is Reason.COPY

    def test_two_that_went_back_are_told_apart(self, task: Task) -> None:
        """Deliver two messages: a publication was repeated without a confirmation, and both arrived."""
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        assert task.is_refused("h3", "h1.2") is Reason.COPY

    def test_a_redelivery_that_goes_back_again_is_still_one_wait(self, task: Task) -> None:
        task.goes_back("h1")
        first = task.ticket
        task.goes_back("h2", redelivered=True)
        assert task.ticket == first
        assert task.store.snapshot("api").waiting == 1
        task.runs("h3", "h2.1")
        assert task.is_refused("h4", "h1.1") is Reason.COPY

    def test_the_admitted_one_may_go_back_itself(self, task: Task) -> None:
        """Redeliver and refuse the admitted message: the one that is published instead comes back, and runs."""
        task.goes_back("h1")
        task.is_interrupted("h2", "h1.1")
        task.goes_back("h3", "h1.1", redelivered=True)
        task.runs("h4", "h3.1")
        assert task.is_refused("h5", "h1.1", redelivered=True) is Reason.COPY

    def test_a_first_message_that_was_interrupted_may_go_back(self, task: Task) -> None:
        task.goes_back("h1")
        task.is_interrupted("h2", redelivered=True)
        task.goes_back("h3", redelivered=True)
        task.runs("h4", "h3.1")
