"""LimitedRequest: each delivery has a holder of its own, and may go back only to its own connection."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import HOLDER, REFUSALS
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


def test_a_held_task_counts_all_its_refusals(app: Celery) -> None:
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
