"""Let the messages of one task come in any order, as the tests of copies need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.refusal import Answer
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket

REMEMBERED = 3600.0


class Task:
    """Sends one task's messages, as brokers and workers may deliver them."""

    def __init__(
        self, store: Store, kind: Kind | None = Kind.REQUEUE, limit: int = 1, of: str = "task:0"
    ) -> None:
        self.store, self.claims, self.kind, self.of = store, claim(limit), kind, of
        self.ticket: Ticket | None = None

    def asks(
        self,
        holder: str,
        id: str = "",  # noqa: A002 - as the field is called
        *,
        ticket: Ticket | None = None,
        **how: Any,
    ) -> Answer:
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


class WithTasks(Suite):
    """Has two tasks of one id."""

    @pytest.fixture
    def task(self, store: Store) -> Task:
        return Task(store)

    @pytest.fixture
    def other(self, store: Store) -> Task:
        return Task(store)
