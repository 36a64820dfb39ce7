"""LimitedRequest: each delivery has a holder of its own, and may go back only to its own connection."""

from __future__ import annotations

import os
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded
from celery import Celery
from celery.exceptions import WorkerLostError
from kombu.utils.imports import symbol_by_name

from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import HOLDER, REFUSALS
from celery_semaphore.worker.permits.note import NotePipe
from tests.worker.requests import limited, message_of, request_of


def request_dict(task: Any, *, epoch: int) -> dict[str, Any]:
    """What a request of this task brings to the process that runs it."""
    limiter_of(task.app).process.store.epoch = epoch
    request = symbol_by_name(task.Request)(message_of(task), app=task.app, task=task)
    found: dict[str, Any] = request._request_dict
    return found


def test_each_delivery_is_a_holder_of_its_own(app: Celery) -> None:
    """A retry may come to its gate before the attempt that sent it has given its permit back."""
    task = limited(app)
    first, second = (request_dict(task, epoch=7) for _ in range(2))
    assert first["id"] == second["id"]
    assert first[HOLDER] != second[HOLDER]


def test_a_kept_task_counts_all_its_refusals(app: Celery) -> None:
    """Its message says none of them."""
    task = limited(app)
    request = request_of(task)
    for _ in range(3):
        request.refusals += 1
        request = request.again(None)
    assert request.refusals == 3
    assert request._request_dict[REFUSALS] == 3


def test_what_a_lost_connection_delivered_is_not_put_back(app: Celery) -> None:
    """The broker delivers it again; a copy would run twice."""
    task = limited(app)
    request = symbol_by_name(task.Request)(message_of(task), app=app, task=task)
    assert request.may_be_moved()
    limiter_of(app).worker.connections += 1
    assert not request.may_be_moved()


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (SoftTimeLimitExceeded(), False),
        (ValueError("of Celery's tracer"), False),
        (TimeLimitExceeded(1), True),
        (WorkerLostError(), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_that_the_process_sent_is_its_end(
    app: Celery, error: Exception, *, waits: bool
) -> None:
    """The pool makes the other errors by itself, while the process may still run the body."""
    request, limiter = request_of(limited(app)), limiter_of(app)
    limiter.notes = NotePipe()  # as in a worker with processes
    request.worker_pid = os.getpid()  # a process that lives
    try:
        raise error
    except type(error):
        request.on_failure(ExceptionInfo())
    assert limiter.process.ledger.has(request.holder) == waits
    limiter.notes.close()
