"""Requests and deliveries of a limited task, without a worker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_semaphore import LimitedTask
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.keeping.kept_message import KeptMessage
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import HOLDER
from celery_semaphore.worker.messages.ticket_header import sent_back
from celery_semaphore.worker.pool_process import postrun

ONE = Claim("one", None, 1)
SENT = sent_back("x:0", 1, None, 1)  # the header of a message that went back once


def nothing() -> None: ...


def limited(app: Celery, body: Callable[..., None] = nothing, **options: Any) -> Any:
    options = {"base": LimitedTask, "semaphore": "one", "limit": 1, "shared": False, **options}
    app.task(name="limited", **options)(body)
    app.finalize()
    return app.tasks["limited"]


def delivered(task: Any, ends: str = "SUCCESS", **headers: Any) -> None:
    """Let a delivery come to its gate in this process, and end."""
    limiter_of(task.app).serve(None)
    request = {HOLDER: "x:1", "id": "x", "called_directly": False, "is_eager": False, **headers}
    task.push_request(**request)
    try:
        task.before_start("x", (), {})
    finally:
        postrun._release(task, ends)
        task.pop_request()


def request_of(task: Any, queue: str = "celery", cls: Any = None, **headers: Any) -> Any:
    message = message_of(task)
    message.headers.update(headers)
    message.delivery_info["routing_key"] = queue
    request = (cls or symbol_by_name(task.Request))(message, app=task.app, task=task)
    limiter_of(task.app).process.ledger.asked(request.holder, [ONE])
    return request


def message_of(task: Any) -> Any:
    return SimpleNamespace(
        headers={"id": "x", "task": task.name, "lang": "py"},
        properties={"correlation_id": "x"},
        body=b'[[], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]',
        payload=((), {}, {}),
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": "celery"},
        delivery_tag="1",
    )


def kept_for(request: Any, ticket: Ticket | None, *rest: Any, **more: Any) -> KeptMessage:
    """A kept message whose request need not be a whole one."""
    return KeptMessage(request, ticket, *rest, **more)
