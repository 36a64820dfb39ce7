"""Test copies: a crash may leave several messages of a task, and only one may run."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ...core.permit import Kind, MessageId, Permit, Reason, Refusal, Wait
from .suite import LEASE, Suite, admitted, claim

if TYPE_CHECKING:
    from ...core.permit import Answer
    from ...core.store import Store
    from ..clock import Clock

REMEMBERED = 3600.0


class Task:
    """Sends one task's messages, as brokers and workers may deliver them."""

    def __init__(
        self, store: Store, kind: Kind | None = Kind.REQUEUE, limit: int = 1, of: str = "task:0"
    ) -> None:
        self.store, self.claims, self.kind, self.of = store, claim(limit), kind, of
        self.ticket: str | None = None

    def asks(self, holder: str, id: str = "", *, ticket: str | None = None, **how: Any) -> Answer:  # noqa: A002 - as the field is called
        message_id = self.brought = MessageId(self.of, id, remember_for=REMEMBERED, **how)
        wait = (
            Wait(self.kind, ticket=ticket or (self.ticket if id else None)) if self.kind else None
        )
        answer = self.store.acquire(self.claims, holder, wait, message_id)
        if isinstance(answer, Refusal):
            self.ticket = answer.ticket or self.ticket
        return answer

    def is_refused(self, *args: Any, **how: Any) -> Reason:
        answer = self.asks(*args, **how)
        assert isinstance(answer, Refusal), answer
        return answer.reason

    def runs(self, holder: str, *args: Any, **how: Any) -> None:
        """Admit the task and release it, as one that ran."""
        answer = self.asks(holder, *args, **how)
        assert isinstance(answer, Permit), answer
        self.store.release(holder, self.claims, self.brought)

    def is_interrupted(self, holder: str, *args: Any, **how: Any) -> None:
        """Admit the task, and release it without naming the message, as one that has not ended."""
        answer = self.asks(holder, *args, **how)
        assert isinstance(answer, Permit), answer
        self.store.release(holder, self.claims)

    def goes_back(self, holder: str, *args: Any, **how: Any) -> None:
        """Refuse the task, because another holder has the permit."""
        admitted(self.store, self.claims, f"before {holder}")
        assert self.is_refused(holder, *args, **how) is Reason.SATURATED
        self.store.release(f"before {holder}", self.claims)


class Copies(Suite):
    @pytest.fixture
    def task(self, store: Store) -> Task:
        return Task(store)

    @pytest.fixture
    def other(self, store: Store) -> Task:
        return Task(store)

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
        brought, ticket = task.brought, task.ticket
        answer = task.asks("h3", redelivered=True)
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.ticket) == (Reason.RUNNING, ticket)
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

    def test_a_redelivery_beside_the_running_one_changes_nothing(self, task: Task) -> None:
        """Redeliver a running message after the broker's timeout: it goes back, and is a copy in the end."""
        task.goes_back("h1")
        assert isinstance(task.asks("h2", "h1.1"), Permit)
        brought = task.brought
        assert task.is_refused("h3", "h1.1", redelivered=True) is Reason.SATURATED
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

    def test_a_redelivery_of_the_admitted_one_runs_again(self, task: Task) -> None:
        """Run a message again if its worker died before it acknowledged: late acks ask for that."""
        task.goes_back("h1")
        task.runs("h2", "h1.1")
        task.runs("h3", "h1.1", redelivered=True)
        assert task.is_refused("h4", redelivered=True) is Reason.COPY

    def test_a_first_message_that_is_redelivered_runs(self, task: Task) -> None:
        task.runs("h1")
        task.runs("h2", redelivered=True)
        task.runs("h3", redelivered=True)

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
        task.runs("h2", "h1.1")
        task.goes_back("h3", "h1.1", redelivered=True)
        task.runs("h4", "h3.1")
        assert task.is_refused("h5", "h1.1", redelivered=True) is Reason.COPY

    def test_a_first_message_that_ran_may_go_back(self, task: Task) -> None:
        task.goes_back("h1")
        task.runs("h2", redelivered=True)
        task.goes_back("h3", redelivered=True)
        task.runs("h4", "h3.1")

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
        """Redeliver a task that has run; the message that it is published as is no copy."""
        task = Task(store, kind=None)
        task.runs("h0")
        known = store.epoch
        clock.advance(1)
        self.forget(store)
        store.epoch = None
        task.runs("h2", "h1.1")
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
        store.sent(store.take(store.release("busy", task.claims)))
        assert store.snapshot("api").occupied == 1
        answer = task.asks("h3", "h9.1")
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.occupied) == (Reason.COPY, 0)
        assert store.snapshot("api").occupied == 0
        admitted(store, task.claims, "next")
